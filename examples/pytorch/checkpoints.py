"""Checkpoints of a small model in the layouts of PyTorch and of DeepSpeed, through scrtune.

    scrtune run -- mpiexec -n 2 python examples/pytorch/checkpoints.py --layout distributed
    scrtune run -- mpiexec -n 2 python examples/pytorch/checkpoints.py --layout deepspeed

`distributed` is torch.distributed.checkpoint: each rank writes its shards into one file (``__0_0.distcp``),
and rank 0 an index (``.metadata``). `deepspeed` has the files that DeepSpeed's ZeRO stage 1 writes, by
torch.save: one of the model for all ranks, and one of its optimizer for each. PyTorch must be installed; the
CPU is enough.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from mpi4py import MPI
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter, load, save

from scrtune.client.engine import OutputFlags  # absolute: an example shows what a user writes
from scrtune.client.session import Session

State = Mapping[str, "torch.Tensor"]


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layout", choices=["distributed", "deepspeed"], default="distributed")
    parser.add_argument("--steps", type=int, default=12, help="steps to compute")
    parser.add_argument("--every", type=int, default=3, help="steps between checkpoints")
    parser.add_argument("--width", type=int, default=512, help="of each of the four layers")
    return parser.parse_args()


def shards(session: Session, step: int, rank: int) -> Path:
    """Return the directory of this rank's shards: SCR is told of each file before it is written or read."""
    directory = Path(session.route_file(f"step.{step}/__{rank}_0.distcp")).parent
    if rank == 0:
        session.route_file(f"step.{step}/.metadata")
    return directory


def write_distributed(session: Session, step: int, rank: int, model: State, optimizer: State) -> None:
    """Let torch.distributed.checkpoint write: what all ranks have alike is divided among them."""
    state = {"model": dict(model), "optim": dict(optimizer)}
    save(state, storage_writer=FileSystemWriter(shards(session, step, rank)))


def write_deepspeed(session: Session, step: int, rank: int, model: State, optimizer: State) -> None:
    """Write the files of DeepSpeed's ZeRO stage 1."""
    if rank == 0:
        path = session.route_file(f"global_step{step}/mp_rank_00_model_states.pt")
        with Path(path).open("wb") as file:  # an open file, so that its writes can be traced
            torch.save({"module": dict(model), "global_steps": step}, file)
    path = session.route_file(f"global_step{step}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    with Path(path).open("wb") as file:
        torch.save({"optimizer_state_dict": dict(optimizer), "global_steps": step}, file)


def read_back(session: Session, rank: int, options: argparse.Namespace, model: State) -> int:
    """Read the newest checkpoint, if there is one; return the step to begin with."""
    while (name := session.have_restart()) is not None:
        session.start_restart()
        valid = False
        step = int(name.rpartition(".")[2])
        try:
            if options.layout == "distributed":
                state = {"model": dict(model)}
                load(state, storage_reader=FileSystemReader(shards(session, step, rank)))
            else:
                optimizer = f"global_step{step}/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
                torch.load(session.route_file(optimizer))
            valid = True
        except (OSError, RuntimeError) as error:
            print(f"rank {rank}: {name}: {error}", flush=True)
        if session.complete_restart(valid):
            return step + 1
    return 0


def main() -> None:
    """Train a little, and take checkpoints."""
    options = arguments()
    comm = MPI.COMM_WORLD
    address = comm.bcast(f"file://{Path.cwd()}/.ranks-{os.getpid()}")
    torch.distributed.init_process_group("gloo", init_method=address, rank=comm.rank, world_size=comm.size)
    layers = [torch.nn.Linear(options.width, options.width) for _ in range(4)]
    network = torch.nn.Sequential(*layers)
    adam = torch.optim.Adam(network.parameters(), lr=1e-4)
    write = write_distributed if options.layout == "distributed" else write_deepspeed
    with Session(comm) as session:
        first = read_back(session, comm.rank, options, network.state_dict())
        for step in range(first, options.steps):
            with session.step(step):
                adam.zero_grad()
                network(torch.rand(32, options.width)).square().mean().backward()
                adam.step()
                comm.Barrier()
            if (step + 1) % options.every == 0:
                moments = {
                    f"{index}.{name}": tensor
                    for index, state in adam.state_dict()["state"].items()
                    for name, tensor in state.items()
                }
                session.start_output(f"step.{step}", OutputFlags.CHECKPOINT)
                valid = False
                try:
                    write(session, step, comm.rank, network.state_dict(), moments)
                    valid = True
                except OSError as error:
                    print(f"rank {comm.rank}: {error}", flush=True)
                session.complete_output(valid)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
