#!/usr/bin/env python3
"""An order that is shipped later: Django registers a task when the transaction is committed.

tickwheel dev &
./manage.py migrate
./manage.py run_worker &
./manage.py order "a teapot"
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
