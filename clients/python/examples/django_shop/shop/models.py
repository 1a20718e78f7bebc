"""Orders."""

from django.db import models


class Order(models.Model):
    product = models.CharField(max_length=100)
    shipped = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"
