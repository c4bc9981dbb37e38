"""Say which rank, which line and which collective holds a hung PyTorch job up."""

__version__ = "0.1.0"
