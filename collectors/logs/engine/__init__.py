"""Where in gigabytes of bytes patterns may match: blocks, words, Hyperscan, threads, storms."""
