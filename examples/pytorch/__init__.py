"""PyTorch's and DeepSpeed's layouts of a checkpoint, written through scrtune."""
