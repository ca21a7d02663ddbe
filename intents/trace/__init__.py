"""DFTracer's formats, decoded and summed up as digests."""
