"""How threads and coroutines wait: what the two clients do under different names."""

import asyncio
import threading
import time

sleep_async = asyncio.sleep
sleep_sync = time.sleep
lock_async = asyncio.Lock
lock_sync = threading.Lock


async def acquire_async(lock: asyncio.Lock, limit: float) -> bool:
    """Takes a lock within `limit` seconds. Tells whether it has."""
    try:
        return await asyncio.wait_for(lock.acquire(), limit)
    except asyncio.TimeoutError:
        return False


def acquire_sync(lock: threading.Lock, limit: float) -> bool:
    """Takes a lock within `limit` seconds. Tells whether it has."""
    return lock.acquire(timeout=max(limit, 0))
