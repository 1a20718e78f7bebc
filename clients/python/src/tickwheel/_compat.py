"""Names of `typing` that Python 3.10 lacks, for the generated types too."""

import sys

if sys.version_info >= (3, 11):
    from typing import NotRequired, Self, TypedDict, Unpack
else:
    from typing_extensions import NotRequired, Self, TypedDict, Unpack

__all__ = ["NotRequired", "Self", "TypedDict", "Unpack"]
