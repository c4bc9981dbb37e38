"""Reading on many machines: each worker reads shards of the files and sends back facts."""
