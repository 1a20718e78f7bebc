"""Tasks of the shop: how they are registered, and what they do."""

from dataclasses import dataclass
from functools import cache, partial

from django.conf import settings
from django.db import close_old_connections, transaction

from tickwheel import Client, Fail, Worker

from .models import Order


@dataclass
class Ship:
    order: int


@cache
def client() -> Client:
    """One client for the process: it is safe for threads, and holds its connections."""
    return Client(settings.TICKWHEEL_SERVER)


def ship_later(order: Order, delay: float) -> None:
    """Ships an order after `delay` seconds. An order that is rolled back is never shipped.

    The key makes a repetition harmless: of one order there is one shipment.
    """
    register = partial(client().register, "ship", Ship(order.pk), delay=delay, key=str(order.pk), on_conflict="ignore")
    transaction.on_commit(register)


def make_worker() -> Worker:
    """The worker of `manage.py run_worker`."""
    worker = Worker(settings.TICKWHEEL_SERVER, concurrency=4)

    @worker.task("ship")
    def ship(task: Ship) -> str:
        close_old_connections()  # threads live longer than connections
        try:
            # May run twice, and the second time changes nothing.
            if not Order.objects.filter(pk=task.order).update(shipped=True):
                raise Fail(f"there is no order {task.order}")
        finally:
            close_old_connections()
        return "shipped"

    return worker
