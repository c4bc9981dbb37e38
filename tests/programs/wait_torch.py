"""Programs with torch that wait: ``wait_torch.py NAME FOLDER RANK PORT``, two ranks over gloo.

Rank 1 goes elsewhere (or rank 0, in the pipeline); the other one calls ``ready()`` right
before it waits, and ``capture.py`` then takes its stacks.
"""

# ruff: noqa: D101, N817 - it does what such programs do
from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

NAME, FOLDER, RANK, PORT = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
LONG = timedelta(seconds=900)


def ready() -> None:
    (FOLDER / f"ready{RANK}").touch()


def stagger(rank: int = 1) -> None:
    """Send one rank elsewhere; the others are about to wait."""
    ready()
    if rank == RANK:
        time.sleep(1000)


def init() -> None:
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{PORT}", rank=RANK, world_size=2)


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))


def batch() -> torch.Tensor:
    return torch.ones(2, 8)


# --- collectives: the body of each runs on rank 0 after init ---

COLLECTIVES = {
    "all_reduce": lambda t: dist.all_reduce(t),
    "broadcast": lambda t: dist.broadcast(t, 1),
    "reduce": lambda t: dist.reduce(t, 0),
    "all_gather": lambda t: dist.all_gather([t.clone(), t.clone()], t),
    "all_gather_into_tensor": lambda t: dist.all_gather_into_tensor(torch.empty(8), t),
    "reduce_scatter_tensor": lambda t: dist.reduce_scatter_tensor(torch.empty(2), t),
    "gather": lambda t: dist.gather(t, [t.clone(), t.clone()], 0),
    "scatter": lambda t: dist.scatter(t, None, 1),
    "all_to_all_single": lambda t: dist.all_to_all_single(torch.empty(4), t),
    "barrier": lambda t: dist.barrier(),
    "monitored_barrier": lambda t: dist.monitored_barrier(timeout=LONG),
    "all_gather_object": lambda t: dist.all_gather_object([None, None], 1),
    "gather_object": lambda t: dist.gather_object(1, [None, None]),
    "broadcast_object_list": lambda t: dist.broadcast_object_list([None], 1),
    "scatter_object_list": lambda t: dist.scatter_object_list([None], None, 1),
    "send": lambda t: dist.send(torch.ones(1 << 22), 1),
    "recv": lambda t: dist.recv(t, 1),
    "recv_object_list": lambda t: dist.recv_object_list([None], 1),
    "irecv_wait": lambda t: dist.irecv(t, 1).wait(),
    "isend_wait": lambda t: dist.isend(torch.ones(1 << 22), 1).wait(),
    "work_wait": lambda t: dist.all_reduce(t, async_op=True).wait(),
    "batch_wait": lambda t: dist.batch_isend_irecv([dist.P2POp(dist.irecv, t, 1)])[0].wait(),
    "new_group": lambda t: dist.new_group([0, 1]),
    "store_get": lambda t: _store().get("never"),
    "store_wait": lambda t: _store().wait(["never"], LONG),
    "debug_elsewhere": lambda t: dist.breakpoint(1),
}


def _store():
    store = dist.distributed_c10d._get_default_store()
    store.set_timeout(LONG)
    return store


def init_group():
    stagger()
    init()


def file_store():
    stagger()
    dist.init_process_group("gloo", f"file://{FOLDER}/store", rank=RANK, world_size=2)


def functional():
    from torch.distributed import _functional_collectives as functional_collectives

    init()
    stagger()
    print(functional_collectives.all_reduce(torch.ones(4), "sum", [0, 1]) + 1)


def debug_terminal():
    init()
    ready()
    dist.breakpoint(0)


# --- models ---


def ddp_constructor():
    from torch.nn.parallel import DistributedDataParallel as DDP

    init()
    stagger()
    DDP(net())


def _ddp(module=None, steps=2, **options):
    from torch.nn.parallel import DistributedDataParallel as DDP

    init()
    model = DDP(module or net(), **options)
    for _ in range(steps):
        model(batch()).sum().backward()
    return model


def ddp_forward():
    model = _ddp(steps=1)  # the second forward rebuilds the buckets
    stagger()
    model(batch())


def ddp_buffers():
    model = _ddp(torch.nn.Sequential(net(), torch.nn.BatchNorm1d(8)))
    stagger()
    model(batch())


def ddp_backward():
    model = _ddp()  # kept: its reducer goes with it
    loss = model(batch()).sum()
    stagger()
    loss.backward()


def ddp_unused():
    model = _ddp(find_unused_parameters=True)
    loss = model(batch()).sum()
    stagger()
    loss.backward()


def ddp_join():
    from torch.distributed.algorithms.join import Join

    model = _ddp()
    stagger()
    with Join([model]):
        model(batch()).sum().backward()
        model(batch()).sum().backward()


def user_hook():
    model = _ddp(steps=0)
    loss = model(batch()).sum()

    def hook(grad):
        ready()
        time.sleep(1000)

    model.module[0].weight.register_hook(hook)
    loss.backward()


def _fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    init()
    model = FSDP(net(), device_id=torch.device("cpu"))
    model(batch()).sum().backward()
    return model


def fsdp1_forward():
    model = _fsdp1()
    stagger()
    model(batch())


def fsdp1_backward():
    loss = _fsdp1()(batch()).sum()
    stagger()
    loss.backward()


def _fsdp2():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    init()
    model = fully_shard(net(), mesh=init_device_mesh("cpu", (2,)))
    model(batch()).sum().backward()
    return model


def fsdp2_forward():
    model = _fsdp2()
    stagger()
    model(batch())


def fsdp2_backward():
    loss = _fsdp2()(batch()).sum()
    stagger()
    loss.backward()


def _dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    init()
    return distribute_tensor(torch.ones(8, 8), init_device_mesh("cpu", (2,)), [Shard(0)])


def dtensor_full():
    tensor = _dtensor()
    stagger()
    print(tensor.full_tensor())


def dtensor_distribute():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    init()
    mesh = init_device_mesh("cpu", (2,))
    stagger()
    distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])


def pipeline_warmup():
    _pipeline(steps=0)


def pipeline_step():
    _pipeline(steps=1)


def _pipeline(steps):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    init()
    stage = PipelineStage(torch.nn.Linear(8, 8), RANK, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)

    def step():
        if RANK == 0:
            schedule.step(batch())
        else:
            schedule.step(target=batch())

    for _ in range(steps):
        step()
    stagger(0)
    step()


def zero_step():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = _ddp(steps=1)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    stagger()
    optimizer.step()


def checkpoint_save():
    import torch.distributed.checkpoint as dcp

    init()
    stagger()
    dcp.save(net().state_dict(), checkpoint_id=FOLDER / "ck")


def checkpoint_async():
    import torch.distributed.checkpoint as dcp

    init()
    stagger()
    dcp.async_save(net().state_dict(), checkpoint_id=FOLDER / "ck").result()


def checkpoint_load():
    import torch.distributed.checkpoint as dcp

    init()
    state = net().state_dict()
    dcp.save(state, checkpoint_id=FOLDER / "ck")
    stagger()
    dcp.load(state, checkpoint_id=FOLDER / "ck")


def rpc_init():
    from torch.distributed import rpc

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT)
    stagger()
    rpc.init_rpc(f"worker{RANK}", rank=RANK, world_size=2)


# --- one process ---


class SlowData:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index >= 2:
            ready()
            time.sleep(1000)
        return index


class FastData:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return index


def _iterate(data, **options):
    from torch.utils.data import DataLoader

    for _ in DataLoader(data, **options):
        pass


def loader_workers():
    _iterate(SlowData(), num_workers=1)


def loader_single():
    _iterate(SlowData(), num_workers=0)


def loader_spawn():
    _iterate(SlowData(), num_workers=1, multiprocessing_context="spawn")


def slow_collate(items):
    ready()
    time.sleep(1000)


def loader_collate():
    _iterate(FastData(), num_workers=1, collate_fn=slow_collate)


def loader_idle():
    from torch.utils.data import DataLoader

    loader = iter(DataLoader(FastData(), num_workers=1, persistent_workers=True))
    next(loader)
    stagger(0)


def never_ends(number):
    import multiprocessing.util

    multiprocessing.util.Finalize(None, time.sleep, args=(1000,), exitpriority=100)


def loader_shutdown():
    from torch.utils.data import DataLoader

    loader = iter(DataLoader(FastData(), num_workers=1, worker_init_fn=never_ends))
    next(loader)
    torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 900
    ready()
    loader._shutdown_workers()


def torch_save():
    os.mkfifo(FOLDER / "fifo")
    ready()
    torch.save({"a": torch.ones(3)}, FOLDER / "fifo")


def torch_load():
    os.mkfifo(FOLDER / "fifo")
    ready()
    torch.load(FOLDER / "fifo")


def lock_file():
    from torch.utils.file_baton import FileBaton

    (FOLDER / "lock").touch()
    ready()
    FileBaton(str(FOLDER / "lock")).wait()


def nothing(index):
    time.sleep(1000)


def spawn():
    import torch.multiprocessing as mp

    ready()
    mp.spawn(nothing, nprocs=1)


def _sleeping_compiler() -> None:
    compiler = FOLDER / "cc"
    compiler.write_text("#!/bin/sh\nsleep 1000\n")
    compiler.chmod(0o755)
    os.environ["CXX"] = str(compiler)


def build_extension():
    from torch.utils import cpp_extension

    _sleeping_compiler()
    ready()
    cpp_extension.load_inline("x", "int f() { return 1; }", functions=["f"], build_directory=FOLDER)


def compile_graph():
    _sleeping_compiler()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(FOLDER / "cache")
    ready()
    torch.compile(lambda x: x.sin() + x.cos())(torch.ones(64, 64))


def torchrun_rendezvous():
    from torch.distributed.run import main

    ready()
    main(["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{PORT}", "x.py"])


def torchrun_watching():
    from torch.distributed.run import main

    (FOLDER / "x.py").write_text("import time\ntime.sleep(1000)\n")
    ready()
    main([f"--master-port={PORT}", str(FOLDER / "x.py")])


if __name__ == "__main__":
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if NAME in COLLECTIVES:
        init()
        stagger()
        COLLECTIVES[NAME](torch.ones(4))
    else:
        globals()[NAME]()
else:  # a child that the spawn method started
    import torch
    import torch.distributed as dist
