"""Files, folders, archives and bundles: find each document, and whose it is by its name."""
