"""Frames of training frameworks that mean waiting, and names that mean a checkpoint anywhere."""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule, names

_PIPE = "in the pipeline's sends and receives"
_SAVING, _LOADING = "saving a checkpoint", "loading a checkpoint"
_DEEPSPEED = ("deepspeed/comm/comm.py", "deepspeed/comm/torch.py")

DEEPSPEED: tuple[WaitRule, ...] = (
    *(
        rule
        for file in _DEEPSPEED
        for rule in (
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=names(
                    "all_reduce all_reduce_coalesced broadcast broadcast_object_list reduce "
                    "all_gather all_gather_object all_gather_coalesced all_gather_into_tensor "
                    "gather scatter reduce_scatter reduce_scatter_tensor all_to_all "
                    "all_to_all_single barrier monitored_barrier"
                ),
                file=file,
                op="=",
                verified="source",
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("inference_all_reduce",),
                file=file,
                op="all_reduce",
                verified="source",
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=names("allgather_fn all_gather_base"),
                file=file,
                op="all_gather_into_tensor",
                verified="source",
            ),
            WaitRule(
                kind=WaitKind.COLLECTIVE,
                functions=("reduce_scatter_fn",),
                file=file,
                op="reduce_scatter_tensor",
                verified="source",
            ),
            WaitRule(
                kind=WaitKind.P2P,
                functions=names("send recv isend irecv"),
                file=file,
                op="=",
                verified="source",
            ),
            WaitRule(
                kind=WaitKind.GROUP,
                functions=names("new_group initialize_mesh_device init_device_mesh"),
                file=file,
                op="new_group",
                says="creating a process group",
                verified="source",
            ),
            WaitRule(
                kind=WaitKind.INIT,
                functions=names("init_distributed init_deepspeed_backend init_process_group"),
                file=file,
                op="init_process_group",
                says="in deepspeed.init_distributed",
                verified="source",
            ),
        )
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names("send recv"),
        file="deepspeed/runtime/pipe/p2p.py",
        op="=",
        says=_PIPE,
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names("wait send_obj recv_obj"),
        file="deepspeed/runtime/pipe/p2p.py",
        says=_PIPE,
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("fetch_sub_module _fetch_sub_module_impl __all_gather_params_"),
        file="deepspeed/runtime/zero/partitioned_param_coordinator.py",
        op="all_gather_into_tensor",
        says="in ZeRO-3's gathering of parameters",
        scope=Scope.MAYBE,
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("wait _allgather_params_coalesced _all_gather_coalesced"),
        file="deepspeed/runtime/zero/partition_parameters.py",
        op="all_gather_into_tensor",
        says="in ZeRO-3's gathering of parameters",
        scope=Scope.MAYBE,
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("synchronize_reads synchronize_writes swap_in swap_out"),
        file="deepspeed/runtime/swap_tensor/partitioned_param_swapper.py",
        says="swapping parameters from or to disk",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("*",),
        file="deepspeed/runtime/swap_tensor/",
        says="swapping tensors from or to disk",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("save load"),
        file="deepspeed/runtime/checkpoint_engine/torch_checkpoint_engine.py",
        says="reading or writing a checkpoint",
        verified="source",
    ),
)

MEGATRON: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.P2P,
            functions=names(
                "_communicate _communicate_shapes _p2p_ops _batched_p2p_ops "
                "_ring_exchange_wrapper recv_forward recv_backward send_forward send_backward "
                "send_forward_recv_backward send_backward_recv_forward send_forward_recv_forward "
                "send_backward_recv_backward send_forward_backward_recv_forward_backward"
            ),
            file=file,
            says=_PIPE,
            verified="by name, not seen",
        )
        for file in (
            "megatron/core/pipeline_parallel/p2p_communication.py",
            "megatron/p2p_communication.py",
            "apex/transformer/pipeline_parallel/p2p_communication.py",
            "nemo/collections/nlp/modules/common/megatron/p2p_communication.py",
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=names("finish_grad_sync finish_param_sync"),
            file=file,
            says="in the last wait for gradients or parameters",
            scope=Scope.MAYBE,
            verified="source",
        )
        for file in (
            "megatron/core/distributed/param_and_grad_buffer.py",
            "megatron/core/distributed/distributed_data_parallel.py",
            "megatron/core/distributed/grad_buffer.py",
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.GROUP,
            functions=names("initialize_model_parallel create_group"),
            file=file,
            op="new_group",
            says="creating the process groups of model parallelism",
            scope=Scope.MAYBE,
            verified="source",
        )
        for file in ("megatron/core/parallel_state.py", "megatron/mpu/initialize.py")
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=names("save load save_preprocess"),
        file="megatron/core/dist_checkpointing/serialization.py",
        layer=Layer.CONTEXT,
        says="saving or loading a checkpoint",
        verified="source",
    ),
)

HOROVOD: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("synchronize",),
        file="horovod/torch/mpi_ops.py",
        says="in a Horovod operation",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("barrier broadcast"),
        file="horovod/torch/mpi_ops.py",
        op="=",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("join",),
        file="horovod/torch/mpi_ops.py",
        op="join",
        says="in Horovod's join",
        verified="source",
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=functions,
            file="horovod/torch/mpi_ops.py",
            op=op,
            verified="source",
        )
        for functions, op in (
            (("allreduce", "grouped_allreduce", "allreduce_", "grouped_allreduce_"), "all_reduce"),
            (("allgather", "grouped_allgather"), "all_gather"),
            (("reducescatter", "grouped_reducescatter"), "reduce_scatter"),
            (("alltoall",), "all_to_all"),
            (("broadcast_",), "broadcast"),
        )
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("broadcast_parameters broadcast_optimizer_state broadcast_object"),
        file="horovod/torch/functions.py",
        op="broadcast",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("synchronize",),
        file="horovod/torch/optimizer.py",
        op="all_reduce",
        says="in Horovod's reduction of gradients",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("init",),
        file="horovod/common/basics.py",
        op="init",
        says="in hvd.init",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.TEARDOWN,
        functions=("shutdown",),
        file="horovod/common/basics.py",
        says="in hvd.shutdown",
        scope=Scope.MAYBE,
        verified="source",
    ),
)

OTHERS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("rendezvous wait_device_ops"),
        file="torch_xla/core/xla_model.py",
        op="barrier",
        says="in an XLA rendezvous",
        verified="by name, not seen",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=names("get wait get_objects"),
        file="ray/_private/worker.py",
        says="waiting for a Ray object",
        scope=Scope.LOCAL,
        verified="by name, not seen",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("main_loop",),
        file="ray/_private/worker.py",
        says="waiting for a Ray task",
        verified="by name, not seen",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=names("dequeue acquire_read acquire_write worker_busy_loop"),
        file="vllm/distributed/device_communicators/shm_broadcast.py",
        says="waiting for the engine's next message",
        verified="by name, not seen",
    ),
    WaitRule(
        kind=WaitKind.DATASET,
        functions=names("load_dataset load_dataset_builder load_from_disk"),
        file="datasets/load.py",
        layer=Layer.CONTEXT,
        says="loading a dataset",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=names("from_pretrained _load_pretrained_model load_state_dict"),
        file="transformers/modeling_utils.py",
        layer=Layer.CONTEXT,
        says="loading a pretrained model",
        verified="source",
    ),
    WaitRule(
        # By name in any file: most projects have a function of their own for it.
        kind=WaitKind.CHECKPOINT,
        functions=names("save_checkpoint _save_checkpoint save_state save_model dump_checkpoint"),
        layer=Layer.CONTEXT,
        says=_SAVING,
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=names("load_checkpoint _load_checkpoint _load_from_checkpoint load_state"),
        layer=Layer.CONTEXT,
        says=_LOADING,
        verified="source",
    ),
)

FRAMEWORKS: tuple[WaitRule, ...] = (*DEEPSPEED, *MEGATRON, *HOROVOD, *OTHERS)
