"""How threads and coroutines wait: what the two clients do under different names."""

import asyncio
import threading
import time

sleep_async = asyncio.sleep
sleep_sync = time.sleep
lock_async = asyncio.Lock
lock_sync = threading.Lock
