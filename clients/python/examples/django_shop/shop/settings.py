"""Settings of the example."""

import os

SECRET_KEY = "of an example"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", "shop.sqlite3")}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

TICKWHEEL_SERVER = os.environ.get("TICKWHEEL_SERVER", "http://127.0.0.1:7420")
