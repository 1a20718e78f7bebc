"""Orders a product."""

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from shop.models import Order
from shop.tasks import ship_later


class Command(BaseCommand):
    help = "Orders a product, which is shipped a second later"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("product")
        parser.add_argument("--fail", action="store_true", help="roll the order back")

    def handle(self, *args: object, product: str, fail: bool, **options: object) -> None:
        with transaction.atomic():
            order = Order.objects.create(product=product)
            ship_later(order, delay=1)
            if fail:
                raise CommandError("the card was declined")
        self.stdout.write(str(order.pk))
