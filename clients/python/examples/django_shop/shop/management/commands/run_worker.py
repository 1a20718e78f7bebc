"""Runs the tasks of the shop until it is told to stop."""

from django.core.management.base import BaseCommand

from shop.tasks import make_worker


class Command(BaseCommand):
    help = "Runs tasks until SIGTERM or SIGINT"

    def handle(self, *args: object, **options: object) -> None:
        make_worker().run()
