"""Frames of torch, 1.13 to 2.15, that mean waiting. Python only; see ``frames`` for the rest."""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule

_C10D = "torch/distributed/distributed_c10d.py"
_DDP = "torch/nn/parallel/distributed.py"
_LOADER = "torch/utils/data/dataloader.py"
_PARAMS = "in FSDP's all-gather of parameters"
_GRADS = "in FSDP's reduction of gradients"
_PIPE = "in the pipeline's sends and receives"
_SAVING, _LOADING = "saving a checkpoint", "loading a checkpoint"

COLLECTIVES: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "all_reduce",
            "all_reduce_coalesced",
            "broadcast",
            "reduce",
            "all_gather",
            "all_gather_coalesced",
            "gather",
            "scatter",
            "reduce_scatter",
            "all_to_all",
            "all_to_all_single",
            "barrier",
            "monitored_barrier",
            "all_gather_object",
            "gather_object",
            "broadcast_object_list",
            "scatter_object_list",
            "all_reduce_multigpu",
            "broadcast_multigpu",
            "reduce_multigpu",
            "all_gather_multigpu",
            "reduce_scatter_multigpu",
        ),
        file=_C10D,
        op="=",
    ),
    WaitRule(
        # Since 2.13 the old names call all_gather_single, reduce_scatter_single.
        kind=WaitKind.COLLECTIVE,
        functions=("all_gather_into_tensor", "all_gather_single", "_all_gather_base"),
        file=_C10D,
        op="all_gather_into_tensor",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base"),
        file=_C10D,
        op="reduce_scatter_tensor",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("gather_into_tensor", "gather_single"),
        file=_C10D,
        op="gather",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=(
            "send",
            "recv",
            "isend",
            "irecv",
            "batch_isend_irecv",
            "send_object_list",
            "recv_object_list",
        ),
        file=_C10D,
        op="=",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_coalescing_manager",),
        file=_C10D,
        says="in a block of coalesced operations",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("wait_tensor", "trigger_wait"),
        file="torch/distributed/_functional_collectives.py",
        says="waiting for a functional collective",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_wait_tensor",),
        file="torch/distributed/_functional_collectives_impl.py",
        says="waiting for a functional collective",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "all_reduce",
            "all_reduce_coalesced",
            "broadcast",
            "all_to_all_single",
            "all_to_all_single_autograd",
        ),
        file="torch/distributed/_functional_collectives.py",
        op="=",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "all_gather_tensor",
            "all_gather_tensor_autograd",
            "all_gather_single",
            "all_gather_into_tensor_coalesced",
        ),
        file="torch/distributed/_functional_collectives.py",
        op="all_gather_into_tensor",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "reduce_scatter_tensor",
            "reduce_scatter_tensor_autograd",
            "reduce_scatter_single",
            "reduce_scatter_tensor_coalesced",
        ),
        file="torch/distributed/_functional_collectives.py",
        op="reduce_scatter_tensor",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("broadcast", "all_gather"),
        file="torch/distributed/collective_utils.py",
        op="=",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("rendezvous",),
        file="torch/distributed/_symmetric_memory/__init__.py",
        says="in the rendezvous of symmetric memory",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=("rpc_sync", "remote", "_invoke_rpc"),
        file="torch/distributed/rpc/api.py",
        op="rpc",
        says="in an RPC",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_all_gather", "_barrier", "_wait_all_workers", "shutdown"),
        file="torch/distributed/rpc/api.py",
        says="in RPC's meeting of all workers",
    ),
)

STARTUP: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.INIT,
        functions=("init_process_group",),
        file=_C10D,
        op="init_process_group",
        says="in init_process_group",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=(
            "rendezvous",
            "_create_c10d_store",
            "_env_rendezvous_handler",
            "_tcp_rendezvous_handler",
            "_file_rendezvous_handler",
        ),
        file="torch/distributed/rendezvous.py",
        op="init_process_group",
        says="in the rendezvous of init_process_group",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=(
            "new_group",
            "_new_group_with_tag",
            "_new_group_via_split_group",
            "new_subgroups",
            "new_subgroups_by_enumeration",
            "split_group",
            "shrink_group",
            "_find_or_create_pg_by_ranks_and_tag",
            "_new_process_group_helper",
            "_create_process_group_wrapper",
            "_store_based_barrier",
        ),
        file=_C10D,
        op="new_group",
        says="creating a process group",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=(
            "init_device_mesh",
            "_init_process_groups",
            "_init_one_process_group",
            "_setup_world_group_and_device",
            "_get_or_create_default_group",
        ),
        file="torch/distributed/device_mesh.py",
        op="new_group",
        says="creating the process groups of a device mesh",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=("_get_or_create_default_group", "init_device_mesh"),
        file="torch/distributed/_tensor/device_mesh.py",
        op="new_group",
        says="creating the process groups of a device mesh",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("init_rpc", "_init_rpc_backend"),
        file="torch/distributed/rpc/__init__.py",
        op="init_rpc",
        says="in init_rpc",
    ),
    WaitRule(
        kind=WaitKind.TEARDOWN,
        functions=("destroy_process_group", "_abort_process_group"),
        file=_C10D,
        says="in destroy_process_group",
        scope=Scope.MAYBE,
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("next_rendezvous",),
        file="torch/distributed/elastic/rendezvous/dynamic_rendezvous.py",
        says="in torchrun's rendezvous",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("next_rendezvous",),
        file="torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py",
        says="in torchrun's rendezvous",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("next_rendezvous", "rendezvous_barrier"),
        file="torch/distributed/elastic/rendezvous/etcd_rendezvous.py",
        says="in torchrun's rendezvous",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("_create_tcp_store", "create_backend"),
        file="torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py",
        says="connecting to torchrun's rendezvous store",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("_rendezvous",),
        file="torch/distributed/elastic/agent/server/api.py",
        says="in torchrun's rendezvous",
    ),
    WaitRule(
        kind=WaitKind.STORE,
        functions=("synchronize", "barrier", "get_all", "_barrier_nonblocking"),
        file="torch/distributed/elastic/utils/store.py",
        says="in a barrier over the store",
    ),
    WaitRule(
        kind=WaitKind.STORE,
        functions=("_exit_barrier",),
        file="torch/distributed/elastic/agent/server/api.py",
        says="in torchrun's exit barrier",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_invoke_run", "_monitor_workers"),
        file="torch/distributed/elastic/agent/server/api.py",
        says="watching its workers",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("join", "_join_procs_with_timeout", "spawn", "start_processes"),
        file="torch/multiprocessing/spawn.py",
        says="waiting for the processes that it spawned",
    ),
)

DATA_PARALLEL: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_verify_param_shape_across_processes",),
        file="torch/distributed/utils.py",
        op="all_gather",
        says="in DDP's check of parameter shapes",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_sync_module_states", "_sync_params_and_buffers"),
        file="torch/distributed/utils.py",
        op="broadcast",
        says="in the broadcast of the model's parameters",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_pre_forward",),
        file=_DDP,
        op="broadcast",
        says="in DDP's forward (rebuilding its buckets)",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "_sync_buffers",
            "_sync_module_buffers",
            "_default_broadcast_coalesced",
            "_distributed_broadcast_coalesced",
            "_check_and_sync_module_buffers",
            "_sync_final_model",
        ),
        file=_DDP,
        op="broadcast",
        says="in DDP's broadcast of buffers",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "_check_global_requires_backward_grad_sync",
            "_match_all_reduce_for_bwd_pass",
            "_match_unused_params_allreduce",
            "_find_common_rank",
        ),
        file=_DDP,
        op="all_reduce",
        says="in DDP's all_reduce for uneven inputs",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "_get_num_nonjoined_procs",
            "_notify_procs_to_terminate",
            "notify_join_context",
        ),
        file="torch/distributed/algorithms/join.py",
        op="all_reduce",
        says="in the Join context's count of ranks",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("forward", "backward"),
        file="torch/nn/modules/_functions.py",
        says="in SyncBatchNorm",
        scope=Scope.MAYBE,
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "_sync_params",
            "_broadcast_object",
            "_broadcast_params_from_rank",
            "consolidate_state_dict",
        ),
        file="torch/distributed/optim/zero_redundancy_optimizer.py",
        op="broadcast",
        says="in ZeroRedundancyOptimizer's broadcast",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("average_parameters", "average_parameters_or_parameter_groups"),
        file="torch/distributed/algorithms/model_averaging/utils.py",
        op="all_reduce",
        says="averaging the models",
    ),
)

SHARDED: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=("_all_gather_flat_param",),
            file=f"torch/distributed/fsdp/{file}",
            op="all_gather_into_tensor",
            says=_PARAMS,
        )
        for file in ("_flat_param.py", "flat_param.py")
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_reduce_grad", "_reduce_grad_no_shard", "_post_backward_hook"),
        file="torch/distributed/fsdp/_runtime_utils.py",
        says=_GRADS,
        scope=Scope.MAYBE,
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("_post_backward_final_callback", "_unshard", "_wait_for_computation_stream"),
        file="torch/distributed/fsdp/_runtime_utils.py",
        says="waiting for FSDP's streams on the GPU",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_post_backward_hook", "_wait_for_post_backward"),
        file="torch/distributed/fsdp/fully_sharded_data_parallel.py",
        says="in an FSDP collective",
        scope=Scope.MAYBE,
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_check_order",),
        file="torch/distributed/fsdp/_exec_order_utils.py",
        op="all_gather_into_tensor",
        says="in FSDP's check of the execution order",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_check_order",),
        file="torch/distributed/fsdp/fully_sharded_data_parallel.py",
        op="all_gather_into_tensor",
        says="in FSDP's check of the execution order",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_sync_module_params_and_buffers", "_sync_module_states"),
        file="torch/distributed/fsdp/_init_utils.py",
        op="broadcast",
        says="in FSDP's broadcast of the model",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=(
            "_communicate_optim_state",
            "_allgather_orig_param_states",
            "_allgather_state_info",
            "_gather_all_orig_param_state",
            "_broadcast_processed_state",
            "_broadcast_state",
        ),
        file="torch/distributed/fsdp/_optim_utils.py",
        says="gathering FSDP's optimizer state",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("clip_grad_norm_",),
        file="torch/distributed/fsdp/fully_sharded_data_parallel.py",
        op="all_reduce",
        says="in FSDP's clip_grad_norm_",
        scope=Scope.MAYBE,
    ),
    *(
        rule
        for folder in ("torch/distributed/fsdp/_fully_shard", "torch/distributed/_composable/fsdp")
        for rule in (
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("foreach_all_gather", "foreach_all_gather_copy_out"),
                file=f"{folder}/_fsdp_collectives.py",
                op="all_gather_into_tensor",
                says=_PARAMS,
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("wait_for_unshard",),
                file=f"{folder}/_fsdp_param_group.py",
                op="all_gather_into_tensor",
                says=_PARAMS,
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("foreach_reduce",),
                file=f"{folder}/_fsdp_collectives.py",
                op="reduce_scatter_tensor",
                says=_GRADS,
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("finalize_backward", "_wait_for_post_backward"),
                file=f"{folder}/_fsdp_param_group.py",
                says="at the end of FSDP's backward",
                scope=Scope.MAYBE,
            ),
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=("redistribute_local_tensor",),
            file=file,
            says="redistributing a DTensor",
            scope=Scope.MAYBE,
        )
        for file in (
            "torch/distributed/tensor/_redistribute.py",
            "torch/distributed/_tensor/_redistribute.py",
            "torch/distributed/_tensor/redistribute.py",
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=("full_tensor", "redistribute"),
            file=file,
            says="redistributing a DTensor",
            scope=Scope.MAYBE,
        )
        for file in ("torch/distributed/tensor/_api.py", "torch/distributed/_tensor/api.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=(function,),
            file=f"torch/distributed/{folder}/_collective_utils.py",
            op=op,
            says="distributing a DTensor",
        )
        for folder in ("tensor", "_tensor")
        for function, op in (("mesh_scatter", "scatter"), ("mesh_broadcast", "broadcast"))
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_broadcast_tensors", "_broadcast_state_dict", "_distribute_tensors"),
        file="torch/distributed/_state_dict_utils.py",
        op="broadcast",
        says="broadcasting a state dict",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_all_gather_sharded_tensor", "_gather_state_dict"),
        file="torch/distributed/_state_dict_utils.py",
        says="gathering a state dict",
    ),
)

PIPELINE: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.P2P,
        functions=("_wait_batch_p2p", "_batch_p2p", "_sorted_batch_p2p"),
        file="torch/distributed/pipelining/schedules.py",
        op="batch_isend_irecv",
        says=_PIPE,
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=("_warmup_p2p",),
        file="torch/distributed/pipelining/schedules.py",
        op="batch_isend_irecv",
        says=_PIPE,
    ),
    WaitRule(
        # Up to 2.6 the wait stands in here, later it is in _wait_batch_p2p.
        kind=WaitKind.P2P,
        functions=("_step_microbatches",),
        file="torch/distributed/pipelining/schedules.py",
        says=_PIPE,
        scope=Scope.MAYBE,
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=(
            "_recv_meta",
            "_send_meta",
            "_shape_inference",
            "_get_stage_shapes",
            "_warmup_forward_vote",
            "_warmup_backward_result",
            "_forward_metadata_inference",
            "_backward_metadata_inference",
        ),
        file="torch/distributed/pipelining/stage.py",
        says="exchanging shapes between pipeline stages",
    ),
)

BACKWARD_AND_GPU: tuple[WaitRule, ...] = (
    *(
        WaitRule(kind=WaitKind.BACKWARD, functions=functions, file=file, layer=layer)
        for functions, file in (
            (("_engine_run_backward",), "torch/autograd/graph.py"),
            (("backward", "grad"), "torch/autograd/__init__.py"),
        )
        for layer in (Layer.PURPOSE, Layer.CONTEXT)
    ),
    *(
        WaitRule(
            kind=WaitKind.CUDA_SYNC,
            functions=("synchronize",),
            file=file,
            says="waiting for the GPU (synchronize)",
        )
        for file in (
            "torch/cuda/__init__.py",
            "torch/cuda/streams.py",
            "torch/accelerator/__init__.py",
            "torch/xpu/__init__.py",
            "torch/xpu/streams.py",
            "torch_npu/npu/utils.py",
            "torch_npu/npu/streams.py",
        )
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("_str", "_str_intern", "_tensor_str", "_tensor_str_with_formatter"),
        file="torch/_tensor_str.py",
        says="waiting for the GPU to print a tensor",
    ),
    *(
        WaitRule(
            kind=WaitKind.CUDA_SYNC,
            functions=("_maybe_opt_step", "unscale_", "_unscale_grads_", "update", "get_scale"),
            file=file,
            says="waiting for the GPU (GradScaler)",
        )
        for file in ("torch/amp/grad_scaler.py", "torch/cuda/amp/grad_scaler.py")
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("empty_cache", "mem_get_info"),
        file="torch/cuda/memory.py",
        says="waiting for the GPU (memory)",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("_lazy_init",),
        file="torch/cuda/__init__.py",
        says="initializing CUDA",
        scope=Scope.LOCAL,
    ),
)

CHECKPOINTS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=("save", "async_save", "save_state_dict", "_save_state_dict"),
        file="torch/distributed/checkpoint/state_dict_saver.py",
        layer=Layer.CONTEXT,
        says=_SAVING,
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=("load", "load_state_dict", "_load_state_dict", "_load_state_dict_from_keys"),
        file="torch/distributed/checkpoint/state_dict_loader.py",
        layer=Layer.CONTEXT,
        says=_LOADING,
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=(
            "get_state_dict",
            "get_model_state_dict",
            "get_optimizer_state_dict",
            "set_state_dict",
            "set_model_state_dict",
            "set_optimizer_state_dict",
        ),
        file="torch/distributed/checkpoint/state_dict.py",
        layer=Layer.CONTEXT,
        says="gathering the state dict of a checkpoint",
    ),
    WaitRule(
        # Methods of _DistWrapper: each is a gather, a local step and a scatter.
        kind=WaitKind.COLLECTIVE,
        functions=(
            "reduce_scatter",
            "all_reduce",
            "all_gather",
            "broadcast",
            "barrier",
            "gather_object",
            "all_gather_object",
            "broadcast_object",
            "scatter_object",
        ),
        file="torch/distributed/checkpoint/utils.py",
        says="agreeing on the checkpoint with the other ranks",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("write_data", "_write_data", "_write_files_from_queue", "_write_item"),
        file="torch/distributed/checkpoint/filesystem.py",
        says="writing a checkpoint to storage",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("finish", "create_stream", "rename", "mkdir", "rm_file"),
        file="torch/distributed/checkpoint/filesystem.py",
        says="writing a checkpoint to storage",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("read_data", "read_metadata"),
        file="torch/distributed/checkpoint/filesystem.py",
        says="reading a checkpoint from storage",
    ),
    WaitRule(
        kind=WaitKind.SUBPROCESS,
        functions=("_wait_for_response", "_send", "save"),
        file="torch/distributed/checkpoint/_async_process_executor.py",
        says="waiting for its checkpoint process",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("save", "_save", "_legacy_save"),
        file="torch/serialization.py",
        says="in torch.save",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("load", "_load", "_legacy_load"),
        file="torch/serialization.py",
        says="in torch.load",
    ),
)

LOADING: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.DATALOADER,
            functions=("_try_get_data", "_get_data"),
            file=file,
            says="waiting for its DataLoader workers",
        )
        for file in (_LOADER, "torchdata/stateful_dataloader/stateful_dataloader.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.DATALOADER,
            functions=("_get_iterator", "_try_put_index"),
            file=file,
            says="starting its DataLoader workers",
        )
        for file in (_LOADER, "torchdata/stateful_dataloader/stateful_dataloader.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.TEARDOWN,
            functions=("_shutdown_workers",),
            file=file,
            says="shutting its DataLoader workers down",
        )
        for file in (_LOADER, "torchdata/stateful_dataloader/stateful_dataloader.py")
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_share_dist_seed",),
        file=_LOADER,
        op="broadcast",
        says="sharing the DataLoader's seed",
    ),
    WaitRule(
        kind=WaitKind.DATASET,
        functions=("fetch",),
        file="torch/utils/data/_utils/fetch.py",
        layer=Layer.CONTEXT,
        says="inside the dataset",
    ),
    *(
        WaitRule(
            kind=WaitKind.IDLE,
            functions=("_worker_loop",),
            file=file,
            says="waiting for work from its rank",
        )
        for file in ("torch/utils/data/_utils/worker.py", "torchdata/stateful_dataloader/worker.py")
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_pin_memory_loop",),
        file="torch/utils/data/_utils/pin_memory.py",
        says="waiting for batches to pin",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("pin_memory",),
        file="torch/utils/data/_utils/pin_memory.py",
        says="pinning a batch in memory",
        scope=Scope.LOCAL,
    ),
)

COMPILING: tuple[WaitRule, ...] = (
    *(
        WaitRule(kind=WaitKind.COMPILE, functions=functions, file=file, layer=layer, says=says)
        for functions, file, says in (
            (
                ("_compile", "compile_inner", "_compile_inner", "_convert_frame_assert"),
                "torch/_dynamo/convert_frame.py",
                "compiling a graph",
            ),
            (
                ("compile_fx", "compile_fx_inner", "_compile_fx_inner", "fx_codegen_and_compile"),
                "torch/_inductor/compile_fx.py",
                "compiling a graph",
            ),
            (("compile",), "triton/compiler/compiler.py", "compiling a Triton kernel"),
            (
                ("load", "load_inline", "_jit_compile", "_run_ninja_build"),
                "torch/utils/cpp_extension.py",
                "building a C++ extension",
            ),
        )
        for layer in (Layer.PURPOSE, Layer.CONTEXT)
    ),
    WaitRule(
        kind=WaitKind.COMPILE,
        functions=("wait", "_wait_futures"),
        file="torch/_inductor/async_compile.py",
        says="waiting for compiled kernels",
    ),
    WaitRule(
        kind=WaitKind.COMPILE,
        functions=("run", "benchmark", "_bench"),
        file="triton/runtime/autotuner.py",
        says="tuning a Triton kernel",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_recv_msg", "_read_thread", "main"),
        file="torch/_inductor/compile_worker/subproc_pool.py",
        says="waiting for kernels to compile",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("main",),
        file="torch/_inductor/compile_worker/__main__.py",
        says="waiting for kernels to compile",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("wait",),
        file="torch/utils/file_baton.py",
        op="file-lock",
        says="waiting for a lock file",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("download_url_to_file", "load_state_dict_from_url", "_read_url"),
        file="torch/hub.py",
        says="downloading a file (torch.hub)",
    ),
    WaitRule(
        kind=WaitKind.DEBUGGER,
        functions=("breakpoint",),
        file="torch/distributed/__init__.py",
        layer=Layer.CONTEXT,
        says="in torch.distributed.breakpoint",
    ),
)

TORCH: tuple[WaitRule, ...] = (
    *COLLECTIVES,
    *STARTUP,
    *DATA_PARALLEL,
    *SHARDED,
    *PIPELINE,
    *BACKWARD_AND_GPU,
    *CHECKPOINTS,
    *LOADING,
    *COMPILING,
)
