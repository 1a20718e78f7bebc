"""The version of the package: that of the service, whose `Cargo.toml` a test compares it with."""

__version__ = "0.2.0"
