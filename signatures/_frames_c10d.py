"""Frames of torch, 1.13 to 2.15: collectives, rendezvous, process groups, the launcher."""

from __future__ import annotations

from whyhang.analyzer.waits import Scope, WaitKind, WaitRule, names

_C10D = "torch/distributed/distributed_c10d.py"

COLLECTIVES: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_coalesced "
            "gather scatter reduce_scatter all_to_all all_to_all_single barrier monitored_barrier "
            "all_gather_object gather_object broadcast_object_list scatter_object_list "
            "all_reduce_multigpu broadcast_multigpu reduce_multigpu all_gather_multigpu "
            "reduce_scatter_multigpu"
        ),
        file=_C10D,
        op="=",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        # Since 2.13 the old names call all_gather_single, reduce_scatter_single.
        kind=WaitKind.COLLECTIVE,
        functions=names("all_gather_into_tensor all_gather_single _all_gather_base"),
        file=_C10D,
        op="all_gather_into_tensor",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base"),
        file=_C10D,
        op="reduce_scatter_tensor",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("gather_into_tensor gather_single"),
        file=_C10D,
        op="gather",
        verified="source 2.15",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names(
            "send recv isend irecv batch_isend_irecv send_object_list recv_object_list"
        ),
        file=_C10D,
        op="=",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_coalescing_manager",),
        file=_C10D,
        says="in a block of coalesced operations",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("wait_tensor trigger_wait"),
        file="torch/distributed/_functional_collectives.py",
        says="in a functional collective",
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_wait_tensor",),
        file="torch/distributed/_functional_collectives_impl.py",
        says="in a functional collective",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "all_reduce all_reduce_coalesced broadcast all_to_all_single all_to_all_single_autograd"
        ),
        file="torch/distributed/_functional_collectives.py",
        op="=",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "all_gather_tensor all_gather_tensor_autograd all_gather_single "
            "all_gather_into_tensor_coalesced"
        ),
        file="torch/distributed/_functional_collectives.py",
        op="all_gather_into_tensor",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "reduce_scatter_tensor reduce_scatter_tensor_autograd reduce_scatter_single "
            "reduce_scatter_tensor_coalesced"
        ),
        file="torch/distributed/_functional_collectives.py",
        op="reduce_scatter_tensor",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("broadcast all_gather"),
        file="torch/distributed/collective_utils.py",
        op="=",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("rendezvous",),
        file="torch/distributed/_symmetric_memory/__init__.py",
        says="in the rendezvous of symmetric memory",
        verified="source 2.6-2.15",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names("rpc_sync remote _invoke_rpc"),
        file="torch/distributed/rpc/api.py",
        op="rpc",
        says="in an RPC",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_all_gather _barrier _wait_all_workers shutdown"),
        file="torch/distributed/rpc/api.py",
        says="in RPC's meeting of all workers",
        verified="source 1.13-2.15",
    ),
)

STARTUP: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.INIT,
        functions=("init_process_group",),
        file=_C10D,
        op="init_process_group",
        says="in init_process_group",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=names(
            "rendezvous _create_c10d_store _env_rendezvous_handler _tcp_rendezvous_handler "
            "_file_rendezvous_handler"
        ),
        file="torch/distributed/rendezvous.py",
        op="init_process_group",
        says="in the rendezvous of init_process_group",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=names(
            "new_group _new_group_with_tag _new_group_via_split_group new_subgroups "
            "new_subgroups_by_enumeration split_group shrink_group "
            "_find_or_create_pg_by_ranks_and_tag _new_process_group_helper "
            "_create_process_group_wrapper _store_based_barrier"
        ),
        file=_C10D,
        op="new_group",
        says="creating a process group",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=names(
            "init_device_mesh _init_process_groups _init_one_process_group "
            "_setup_world_group_and_device _get_or_create_default_group"
        ),
        file="torch/distributed/device_mesh.py",
        op="new_group",
        says="creating the process groups of a device mesh",
        verified="source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=names("_get_or_create_default_group init_device_mesh"),
        file="torch/distributed/_tensor/device_mesh.py",
        op="new_group",
        says="creating the process groups of a device mesh",
        verified="source 2.1",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=names("init_rpc _init_rpc_backend"),
        file="torch/distributed/rpc/__init__.py",
        op="init_rpc",
        says="in init_rpc",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.TEARDOWN,
        functions=names("destroy_process_group _abort_process_group"),
        file=_C10D,
        says="in destroy_process_group",
        scope=Scope.MAYBE,
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("next_rendezvous",),
        file="torch/distributed/elastic/rendezvous/dynamic_rendezvous.py",
        says="in torchrun's rendezvous",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("next_rendezvous",),
        file="torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py",
        says="in torchrun's rendezvous",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=names("next_rendezvous rendezvous_barrier"),
        file="torch/distributed/elastic/rendezvous/etcd_rendezvous.py",
        says="in torchrun's rendezvous",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=names("_create_tcp_store create_backend"),
        file="torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py",
        says="connecting to torchrun's rendezvous store",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("_rendezvous",),
        file="torch/distributed/elastic/agent/server/api.py",
        says="in torchrun's rendezvous",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.STORE,
        functions=names("synchronize barrier get_all _barrier_nonblocking"),
        file="torch/distributed/elastic/utils/store.py",
        says="in a barrier over the store",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.STORE,
        functions=("_exit_barrier",),
        file="torch/distributed/elastic/agent/server/api.py",
        says="in torchrun's exit barrier",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=names("_invoke_run _monitor_workers"),
        file="torch/distributed/elastic/agent/server/api.py",
        says="watching its workers",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=names("join _join_procs_with_timeout spawn start_processes"),
        file="torch/multiprocessing/spawn.py",
        says="waiting for the processes that it spawned",
        verified="run 2.13; source 1.13-2.15",
    ),
)

C10D: tuple[WaitRule, ...] = (*COLLECTIVES, *STARTUP)
