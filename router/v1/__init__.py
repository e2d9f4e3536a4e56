"""Generated from proto/router/v1/router.proto; do not edit, run `make proto`."""
