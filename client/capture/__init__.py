"""Follow what DFTracer and the preloaded library write, and forward it to the daemon."""
