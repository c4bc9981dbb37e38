"""Frames of torch, 1.13 to 2.15: backward, the GPU, checkpoints, DataLoader, compilation."""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule, names

_LOADER = "torch/utils/data/dataloader.py"
_SAVING, _LOADING = "saving a checkpoint", "loading a checkpoint"

BACKWARD_AND_GPU: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.BACKWARD,
            functions=functions,
            file=file,
            layer=layer,
            verified="run 2.13; source 2.4-2.15",
        )
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
            verified="source 1.13-2.15",
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
        functions=names("_str _str_intern _tensor_str _tensor_str_with_formatter"),
        file="torch/_tensor_str.py",
        says="waiting for the GPU to print a tensor",
        verified="source 1.13-2.15",
    ),
    *(
        WaitRule(
            kind=WaitKind.CUDA_SYNC,
            functions=names("_maybe_opt_step unscale_ _unscale_grads_ update get_scale"),
            file=file,
            says="waiting for the GPU (GradScaler)",
            verified="source 2.4-2.15",
        )
        for file in ("torch/amp/grad_scaler.py", "torch/cuda/amp/grad_scaler.py")
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=names("empty_cache mem_get_info"),
        file="torch/cuda/memory.py",
        says="waiting for the GPU (memory)",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("_lazy_init",),
        file="torch/cuda/__init__.py",
        says="initializing CUDA",
        scope=Scope.LOCAL,
        verified="source 1.13-2.15",
    ),
)

CHECKPOINTS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=names("save async_save save_state_dict _save_state_dict"),
        file="torch/distributed/checkpoint/state_dict_saver.py",
        layer=Layer.CONTEXT,
        says=_SAVING,
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=names("load load_state_dict _load_state_dict _load_state_dict_from_keys"),
        file="torch/distributed/checkpoint/state_dict_loader.py",
        layer=Layer.CONTEXT,
        says=_LOADING,
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.CHECKPOINT,
        functions=names(
            "get_state_dict get_model_state_dict get_optimizer_state_dict set_state_dict "
            "set_model_state_dict set_optimizer_state_dict"
        ),
        file="torch/distributed/checkpoint/state_dict.py",
        layer=Layer.CONTEXT,
        says="gathering the state dict of a checkpoint",
        verified="source 2.4-2.15",
    ),
    WaitRule(
        # Methods of _DistWrapper: each is a gather, a local step and a scatter.
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "reduce_scatter all_reduce all_gather broadcast barrier gather_object "
            "all_gather_object broadcast_object scatter_object"
        ),
        file="torch/distributed/checkpoint/utils.py",
        says="in DCP's agreement on the checkpoint",
        verified="run 2.13; source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("write_data _write_data _write_files_from_queue _write_item"),
        file="torch/distributed/checkpoint/filesystem.py",
        says="writing a checkpoint to storage",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("finish create_stream rename mkdir rm_file"),
        file="torch/distributed/checkpoint/filesystem.py",
        says="writing a checkpoint to storage",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("read_data read_metadata"),
        file="torch/distributed/checkpoint/filesystem.py",
        says="reading a checkpoint from storage",
        verified="source 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.SUBPROCESS,
        functions=names("_wait_for_response _send save"),
        file="torch/distributed/checkpoint/_async_process_executor.py",
        says="waiting for its checkpoint process",
        verified="source 2.8-2.15",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("save _save _legacy_save"),
        file="torch/serialization.py",
        says="in torch.save",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("load _load _legacy_load"),
        file="torch/serialization.py",
        says="in torch.load",
        verified="run 2.13; source 1.13-2.15",
    ),
)

LOADING: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.DATALOADER,
            functions=names("_try_get_data _get_data"),
            file=file,
            says="waiting for its DataLoader workers",
            verified="in part run 2.13; source 1.13-2.15",
        )
        for file in (_LOADER, "torchdata/stateful_dataloader/stateful_dataloader.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.DATALOADER,
            functions=names("_get_iterator _try_put_index"),
            file=file,
            says="starting its DataLoader workers",
            verified="source 1.13-2.15",
        )
        for file in (_LOADER, "torchdata/stateful_dataloader/stateful_dataloader.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.TEARDOWN,
            functions=("_shutdown_workers",),
            file=file,
            says="shutting its DataLoader workers down",
            verified="in part run 2.13; source 1.13-2.15",
        )
        for file in (_LOADER, "torchdata/stateful_dataloader/stateful_dataloader.py")
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("_share_dist_seed",),
        file=_LOADER,
        op="broadcast",
        says="in the broadcast of the DataLoader's seed",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.DATASET,
        functions=("fetch",),
        file="torch/utils/data/_utils/fetch.py",
        layer=Layer.CONTEXT,
        says="inside the dataset",
        verified="run 2.13; source 1.13-2.15",
    ),
    *(
        WaitRule(
            kind=WaitKind.IDLE,
            functions=("_worker_loop",),
            file=file,
            says="waiting for work from its rank",
            verified="in part run 2.13; source 1.13-2.15",
        )
        for file in ("torch/utils/data/_utils/worker.py", "torchdata/stateful_dataloader/worker.py")
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_pin_memory_loop",),
        file="torch/utils/data/_utils/pin_memory.py",
        says="waiting for batches to pin",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("pin_memory",),
        file="torch/utils/data/_utils/pin_memory.py",
        says="pinning a batch in memory",
        scope=Scope.LOCAL,
        verified="source 1.13-2.15",
    ),
)

COMPILING: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.COMPILE,
            functions=functions,
            file=file,
            layer=layer,
            says=says,
            verified="in part run 2.13; source 2.1-2.15",
        )
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
        functions=names("wait _wait_futures"),
        file="torch/_inductor/async_compile.py",
        says="waiting for compiled kernels",
        verified="source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.COMPILE,
        functions=names("run benchmark _bench"),
        file="triton/runtime/autotuner.py",
        says="tuning a Triton kernel",
        verified="by name, not seen",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=names("_recv_msg _read_thread main"),
        file="torch/_inductor/compile_worker/subproc_pool.py",
        says="waiting for kernels to compile",
        verified="source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("main",),
        file="torch/_inductor/compile_worker/__main__.py",
        says="waiting for kernels to compile",
        verified="source 2.4-2.15",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("wait",),
        file="torch/utils/file_baton.py",
        op="file-lock",
        says="waiting for a lock file",
        verified="run 2.13; source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("download_url_to_file load_state_dict_from_url _read_url"),
        file="torch/hub.py",
        says="downloading a file (torch.hub)",
        verified="source 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.DEBUGGER,
        functions=("breakpoint",),
        file="torch/distributed/__init__.py",
        layer=Layer.CONTEXT,
        says="in torch.distributed.breakpoint",
        verified="run 2.13; source 2.4-2.15",
    ),
)

TORCH: tuple[WaitRule, ...] = (*BACKWARD_AND_GPU, *CHECKPOINTS, *LOADING, *COMPILING)
