"""Frames of torch, 1.13 to 2.15: DDP, FSDP, DTensor, pipelines."""

from __future__ import annotations

from whyhang.analyzer.waits import Scope, WaitKind, WaitRule, names

_DDP = "torch/nn/parallel/distributed.py"
_PARAMS = "in FSDP's all-gather of parameters"
_GRADS = "in FSDP's reduction of gradients"
_PIPE = "in the pipeline's sends and receives"

DATA_PARALLEL: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_verify_param_shape_across_processes",),
        file="torch/distributed/utils.py",
        op="all_gather",
        says="in DDP's check of parameter shapes",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_sync_module_states _sync_params_and_buffers"),
        file="torch/distributed/utils.py",
        op="broadcast",
        says="in the broadcast of the model's parameters",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_pre_forward",),
        file=_DDP,
        op="broadcast",
        says="in DDP's forward (rebuilding its buckets)",
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "_sync_buffers _sync_module_buffers _default_broadcast_coalesced "
            "_distributed_broadcast_coalesced _check_and_sync_module_buffers _sync_final_model"
        ),
        file=_DDP,
        op="broadcast",
        says="in DDP's broadcast of buffers",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "_check_global_requires_backward_grad_sync _match_all_reduce_for_bwd_pass "
            "_match_unused_params_allreduce _find_common_rank"
        ),
        file=_DDP,
        op="all_reduce",
        says="in DDP's all_reduce for uneven inputs",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_get_num_nonjoined_procs _notify_procs_to_terminate notify_join_context"),
        file="torch/distributed/algorithms/join.py",
        op="all_reduce",
        says="in the Join context's count of ranks",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("forward backward"),
        file="torch/nn/modules/_functions.py",
        says="in SyncBatchNorm",
        scope=Scope.MAYBE,
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "_sync_params _broadcast_object _broadcast_params_from_rank consolidate_state_dict"
        ),
        file="torch/distributed/optim/zero_redundancy_optimizer.py",
        op="broadcast",
        says="in ZeroRedundancyOptimizer's broadcast",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("average_parameters average_parameters_or_parameter_groups"),
        file="torch/distributed/algorithms/model_averaging/utils.py",
        op="all_reduce",
        says="in the averaging of the models",
        verified="source 1.13-2.15",
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
            verified="in part run 2.13; source 2.4-2.15",
        )
        for file in ("_flat_param.py", "flat_param.py")
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_reduce_grad _reduce_grad_no_shard _post_backward_hook"),
        file="torch/distributed/fsdp/_runtime_utils.py",
        says=_GRADS,
        scope=Scope.MAYBE,
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=names("_post_backward_final_callback _unshard _wait_for_computation_stream"),
        file="torch/distributed/fsdp/_runtime_utils.py",
        says="waiting for FSDP's streams on the GPU",
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_post_backward_hook _wait_for_post_backward"),
        file="torch/distributed/fsdp/fully_sharded_data_parallel.py",
        says="in an FSDP collective",
        scope=Scope.MAYBE,
        verified="source 1.13",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_check_order",),
        file="torch/distributed/fsdp/_exec_order_utils.py",
        op="all_gather_into_tensor",
        says="in FSDP's check of the execution order",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_check_order",),
        file="torch/distributed/fsdp/fully_sharded_data_parallel.py",
        op="all_gather_into_tensor",
        says="in FSDP's check of the execution order",
        verified="source 1.13",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_sync_module_params_and_buffers _sync_module_states"),
        file="torch/distributed/fsdp/_init_utils.py",
        op="broadcast",
        says="in FSDP's broadcast of the model",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "_communicate_optim_state _allgather_orig_param_states _allgather_state_info "
            "_gather_all_orig_param_state _broadcast_processed_state _broadcast_state"
        ),
        file="torch/distributed/fsdp/_optim_utils.py",
        says="in the gathering of FSDP's optimizer state",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("clip_grad_norm_",),
        file="torch/distributed/fsdp/fully_sharded_data_parallel.py",
        op="all_reduce",
        says="in FSDP's clip_grad_norm_",
        scope=Scope.MAYBE,
        verified="source 1.13-2.15",
    ),
    *(
        rule
        for folder in ("torch/distributed/fsdp/_fully_shard", "torch/distributed/_composable/fsdp")
        for rule in (
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=names("foreach_all_gather foreach_all_gather_copy_out"),
                file=f"{folder}/_fsdp_collectives.py",
                op="all_gather_into_tensor",
                says=_PARAMS,
                verified="in part run 2.13; source 2.6-2.15",
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("wait_for_unshard",),
                file=f"{folder}/_fsdp_param_group.py",
                op="all_gather_into_tensor",
                says=_PARAMS,
                verified="source 2.6-2.15",
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("foreach_reduce",),
                file=f"{folder}/_fsdp_collectives.py",
                op="reduce_scatter_tensor",
                says=_GRADS,
                verified="in part run 2.13; source 2.6-2.15",
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=names("finalize_backward _wait_for_post_backward"),
                file=f"{folder}/_fsdp_param_group.py",
                says="in the end of FSDP's backward",
                scope=Scope.MAYBE,
                verified="source 2.6-2.15",
            ),
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=("redistribute_local_tensor",),
            file=file,
            says="in the redistribution of a DTensor",
            scope=Scope.MAYBE,
            verified="in part run 2.13; source 2.6-2.15",
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
            functions=names("full_tensor redistribute"),
            file=file,
            says="in the redistribution of a DTensor",
            scope=Scope.MAYBE,
            verified="in part run 2.13; source 2.6-2.15",
        )
        for file in ("torch/distributed/tensor/_api.py", "torch/distributed/_tensor/api.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=(function,),
            file=f"torch/distributed/{folder}/_collective_utils.py",
            op=op,
            says="in the distribution of a DTensor",
            verified="in part run 2.13; source 2.6-2.15",
        )
        for folder in ("tensor", "_tensor")
        for function, op in (("mesh_scatter", "scatter"), ("mesh_broadcast", "broadcast"))
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_broadcast_tensors _broadcast_state_dict _distribute_tensors"),
        file="torch/distributed/_state_dict_utils.py",
        op="broadcast",
        says="in the broadcast of a state dict",
        verified="source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("_all_gather_sharded_tensor _gather_state_dict"),
        file="torch/distributed/_state_dict_utils.py",
        says="in the gathering of a state dict",
        verified="source 2.4-2.15",
    ),
)

PIPELINE: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.P2P,
        functions=names("_wait_batch_p2p _batch_p2p _sorted_batch_p2p"),
        file="torch/distributed/pipelining/schedules.py",
        op="batch_isend_irecv",
        says=_PIPE,
        verified="run 2.13; source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=("_warmup_p2p",),
        file="torch/distributed/pipelining/schedules.py",
        op="batch_isend_irecv",
        says=_PIPE,
        verified="run 2.13; source 2.13",
    ),
    WaitRule(
        # Up to 2.6 the wait stands in here, later it is in _wait_batch_p2p.
        kind=WaitKind.P2P,
        functions=("_step_microbatches",),
        file="torch/distributed/pipelining/schedules.py",
        says=_PIPE,
        scope=Scope.MAYBE,
        verified="run 2.13; source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names(
            "_recv_meta _send_meta _shape_inference _get_stage_shapes _warmup_forward_vote "
            "_warmup_backward_result _forward_metadata_inference _backward_metadata_inference"
        ),
        file="torch/distributed/pipelining/stage.py",
        says="in the exchange of shapes between pipeline stages",
        verified="run 2.13; source 2.4-2.15",
    ),
)

MODELS: tuple[WaitRule, ...] = (*DATA_PARALLEL, *SHARDED, *PIPELINE)
