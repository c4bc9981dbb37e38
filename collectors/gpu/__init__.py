"""The state of GPUs, from what nvidia-smi, NVML, dcgmi diag and rocm-smi print.

``fields.py`` knows what each tool calls a value, the readers know the shapes: XML, CSV, the
query text, tables, monitors, links. All yield ``Gpu`` facts, one for each GPU and sample.
"""
