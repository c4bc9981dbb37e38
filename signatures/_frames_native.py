"""Native frames (C and C++): c10d, gloo, NCCL, CUDA.

py-spy prints them without arguments, gdb with; leading underscores and glibc's marks are left
out here. What is in a torch library was looked up in the symbols of its wheels; static
functions (most of NCCL's) have no symbol there and come from its source.
"""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule, names

_GROUPS = (
    "c10d::ProcessGroup",
    "c10d::ProcessGroupGloo",
    "c10d::ProcessGroupNCCL",
    "c10d::ProcessGroupMPI",
    "c10d::ProcessGroupUCC",
    "c10d::ProcessGroupWrapper",
    "c10d::nccl2::ProcessGroupNCCL",
    "c10d::nccl2::ProcessGroupNCCLLazy",
)
_SETS_UP = "setting up an NCCL communicator"

C10D: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("c10d::Work::wait c10d::ProcessGroupNCCL::WorkNCCL::wait"),
        native=True,
        says="in the wait() of an asynchronous operation",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal "
            "c10d::nccl2::ProcessGroupNCCL::waitForNcclOperation "
            "c10d::nccl2::waitForNcclCompletion c10d::ProcessGroupMPI::AsyncWork::wait "
            "c10d::ProcessGroupUCC::WorkUCC::wait"
        ),
        native=True,
        says="in the wait() of an asynchronous operation",
        verified="symbols 2.1, 2.4, 2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("c10d::wait_tensor",),
        native=True,
        says="in a functional collective",
        verified="run 2.13; symbols 2.6-2.15",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names(
            "c10d::ProcessGroupGloo::RecvWork::wait c10d::ProcessGroupGloo::RecvWork::*"
        ),
        native=True,
        op="recv",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.P2P,
        functions=names(
            "c10d::ProcessGroupGloo::SendWork::wait c10d::ProcessGroupGloo::SendWork::*"
        ),
        native=True,
        op="send",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("c10d::ProcessGroupGloo::monitoredBarrier",),
        native=True,
        op="monitored_barrier",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    *(
        WaitRule(
            kind=WaitKind.P2P if op in {"send", "recv"} else WaitKind.COLLECTIVE,
            functions=tuple(f"{group}::{name}" for group in _GROUPS for name in names),
            native=True,
            op=op,
            verified="symbols 1.13-2.15",
        )
        for op, names in (
            ("all_reduce", ("allreduce", "allreduce_impl", "allreduce_coalesced", "all_reduce")),
            ("all_gather", ("allgather", "allgather_coalesced", "all_gather")),
            ("all_gather_into_tensor", ("_allgather_base", "all_gather_single")),
            ("all_gather_into_tensor", ("allgather_into_tensor_coalesced",)),
            ("reduce_scatter", ("reduce_scatter",)),
            ("reduce_scatter_tensor", ("_reduce_scatter_base", "reduce_scatter_single")),
            ("reduce_scatter_tensor", ("reduce_scatter_tensor_coalesced",)),
            ("all_to_all", ("alltoall", "all_to_all")),
            ("all_to_all_single", ("alltoall_base", "all_to_all_single")),
            ("broadcast", ("broadcast", "_broadcast_oop")),
            ("reduce", ("reduce", "_reduce_oop")),
            ("gather", ("gather",)),
            ("scatter", ("scatter",)),
            ("barrier", ("barrier",)),
            ("send", ("send",)),
            ("recv", ("recv", "recvAnysource")),
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=(f"c10d::Reducer::{name}",),
            native=True,
            op=op,
            says=says,
            verified="in part run 2.13; symbols 1.13-2.15",
        )
        for name, op, says in (
            ("finalize_backward", "all_reduce", "in DDP's gradient all_reduce"),
            ("finalize_bucket_dense", "all_reduce", "in DDP's gradient all_reduce"),
            ("all_reduce_local_used_map", "all_reduce", "in DDP's all_reduce of unused parameters"),
            ("sync_bucket_indices", "broadcast", "in DDP's forward (rebuilding its buckets)"),
            ("rebuild_buckets", "broadcast", "in DDP's forward (rebuilding its buckets)"),
        )
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("c10d::verify_params_across_processes",),
        native=True,
        op="all_gather",
        says="in DDP's check of parameter shapes",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=("c10d::broadcast_coalesced",),
        native=True,
        op="broadcast",
        says="in the broadcast of the model's parameters",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.STORE,
        functions=names(
            "c10d::TCPStore::doWait c10d::TCPStore::doGet c10d::TCPStore::get "
            "c10d::TCPStore::wait c10d::TCPStore::multiGet c10d::TCPStore::add "
            "c10d::TCPStore::set c10d::TCPStore::compareSet c10d::TCPStore::check "
            "c10d::TCPStore::barrier c10d::FileStore::wait c10d::FileStore::get "
            "c10d::HashStore::wait c10d::HashStore::get c10d::PrefixStore::wait "
            "c10d::PrefixStore::get"
        ),
        native=True,
        says="waiting for a key of the store",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.INIT,
        functions=("c10d::TCPStore::waitForWorkers",),
        native=True,
        op="init_process_group",
        says="waiting for all workers to join the store",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        # Its maker waits here for as many clients as it was told to expect, a client for its maker.
        kind=WaitKind.INIT,
        functions=("c10d::TCPStore::TCPStore",),
        native=True,
        op="init_process_group",
        says="joining the store",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.GROUP,
        functions=names(
            "c10d::ProcessGroupGloo::ProcessGroupGloo c10d::ProcessGroupGloo::connectContexts "
            "gloo::rendezvous::Context::connectFullMesh "
            "gloo::transport::tcp::Context::createAndConnectAllPairs"
        ),
        native=True,
        says="connecting gloo to all ranks of a group",
        verified="run 2.13; symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.TEARDOWN,
        functions=names(
            "c10d::ProcessGroupNCCL::shutdown c10d::ProcessGroupNCCL::abort "
            "c10d::ProcessGroupNCCL::abortCommsFromMap "
            "c10d::ProcessGroupNCCL::waitForPendingWorks c10d::nccl2::ProcessGroupNCCL::shutdown "
            "c10d::nccl2::ProcessGroupNCCL::abort c10d::nccl2::ProcessGroupNCCL::finalize "
            "ncclCommAbort ncclCommDestroy ncclCommFinalize ncclCommRevoke commDestroySync "
            "commReclaim commFinalize ncclProxyStop ncclProxyDestroy"
        ),
        native=True,
        says="shutting a communicator down",
        scope=Scope.MAYBE,
        verified="symbols 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=names(
            "c10d::ProcessGroupNCCL::Watchdog::runLoop "
            "c10d::ProcessGroupNCCL::HeartbeatMonitor::runLoop "
            "c10d::ProcessGroupNCCL::heartbeatMonitor c10d::ProcessGroupNCCL::watchdogHandler "
            "c10d::ProcessGroupNCCL::ncclCommWatchdog c10d::ProcessGroupNCCL::workCleanupLoop "
            "c10d::nccl2::ProcessGroupNCCL::timeoutWatchdog c10d::ProcessGroupGloo::runLoop "
            "gloo::transport::tcp::Loop::run c10d::detail::LibUVStoreDaemon::run "
            "c10d::detail::TCPStoreMasterDaemon::run ncclProxyProgress ncclProxyService "
            "ncclProxyServiceUDS ncclRasMain rasThreadMain ncclProxyGetPostedOps progressOps "
            "sendProxyProgress recvProxyProgress ncclIbAsyncThreadMain persistentSocketThread"
        ),
        native=True,
        says="a thread that watches or serves",
        verified="symbols 1.13-2.15",
    ),
    WaitRule(
        kind=WaitKind.BACKWARD,
        functions=names(
            "torch::autograd::Engine::execute torch::autograd::Engine::execute_with_graph_task "
            "torch::autograd::python::PythonEngine::execute"
        ),
        native=True,
        verified="run 2.13",
    ),
)

NCCL: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.NCCL_INIT,
        functions=names(
            "c10d::ProcessGroupNCCL::broadcastUniqueNCCLID "
            "c10d::ProcessGroupNCCL::allgatherUniqueNCCLIDs c10d::ProcessGroupNCCL::initNCCLComm "
            "c10d::ProcessGroupNCCL::getNCCLComm c10d::ProcessGroupNCCL::eagerConnectSingleDevice "
            "c10d::nccl2::ProcessGroupNCCL::eagerConnectSingleDevice "
            "c10d::nccl2::ProcessGroupNCCL::initNcclResources c10d::nccl2::waitForNcclChildComm "
            "c10d::NCCLComm::create* c10d::NCCLComm::split c10d::NCCLComm::waitReady "
            "ncclCommInit* ncclCommSplit* bootstrapInit bootstrapAllGather bootstrapRecv "
            "bootstrapRoot socketRingConnect initTransportsRank ncclTransportP2pSetup "
            "ncclTransportRingConnect ncclTransportTreeConnect ncclCollPreconnectFunc "
            "ncclP2PPreconnectFunc ncclPreconnectFunc bootstrapSend bootstrapSplit "
            "socketRingAllGather ncclTransportPatConnect ncclTransportCheckP2pType "
            "ncclCommShrink ncclCommGrow"
        ),
        native=True,
        says=_SETS_UP,
        verified="symbols 2.1-2.15",
    ),
    WaitRule(
        kind=WaitKind.NCCL_INIT,
        functions=names(
            "ncclProxyCallBlocking* ncclPollProxyResponse ncclProxyConnect "
            "ncclProxyClientGetFd* ncclProxyClientQueryFd*"
        ),
        native=True,
        says="connecting to a peer (waits for NCCL's proxy thread)",
        verified="NCCL source",
    ),
    WaitRule(
        kind=WaitKind.NCCL_INIT,
        functions=names(
            "ncclNvlsSetup ncclNvlsBufferSetup ncclNvlsTreeConnect ncclNvls* "
            "cuMulticastBindMem cuMulticastBindAddr cuMulticastAddDevice cuMulticastCreate"
        ),
        native=True,
        says="setting up NVLS multicast memory (Fabric Manager, NVSwitch)",
        verified="NCCL source, CUDA interface",
    ),
    WaitRule(
        kind=WaitKind.NCCL_INIT,
        functions=names("ncclCuMemHostAlloc ncclCuMemHostEnable ncclCuMemAlloc ncclIpcSocket*"),
        native=True,
        says="exchanging memory handles with local ranks (cuMem)",
        verified="NCCL source",
    ),
    *(
        WaitRule(
            kind=WaitKind.P2P if op in {"send", "recv"} else WaitKind.COLLECTIVE,
            functions=(name,),
            native=True,
            op=op,
            says=f"in the launch of {op} (NCCL)",
            verified="NCCL source",
        )
        for name, op in (
            ("ncclAllReduce", "all_reduce"),
            ("ncclAllGather", "all_gather_into_tensor"),
            ("ncclReduceScatter", "reduce_scatter_tensor"),
            ("ncclBroadcast", "broadcast"),
            ("ncclReduce", "reduce"),
            ("ncclSend", "send"),
            ("ncclRecv", "recv"),
        )
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names(
            "ncclGroupEnd ncclGroupEndInternal groupLaunch ncclEnqueueCheck asyncJobLaunch "
            "ncclLaunchPrepare uploadWork ncclProxyStart doLaunches"
        ),
        native=True,
        says="in the launch of an NCCL operation",
        scope=Scope.MAYBE,
        verified="NCCL source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("waitWorkFifoAvailable ncclLocalOpAppend"),
        native=True,
        layer=Layer.MECHANISM,
        says="in NCCL's full queue (operations before this one do not finish)",
        scope=Scope.MAYBE,
        verified="NCCL source",
    ),
    WaitRule(
        kind=WaitKind.COLLECTIVE,
        functions=names("ncclLaunchKernel ncclStrongStreamLaunchKernel"),
        native=True,
        says="in the launch of an NCCL kernel",
        scope=Scope.MAYBE,
        verified="NCCL source",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=names(
            "cudaStreamSynchronize* cudaEventSynchronize* cudaDeviceSynchronize* cudaMemcpy* "
            "cudaFree* cudaHostAlloc* cudaMalloc* cuStreamSynchronize* cuEventSynchronize* "
            "cuCtxSynchronize* cuMemcpy* cuMemFree* cuMemAlloc* hipStreamSynchronize* "
            "hipEventSynchronize* hipDeviceSynchronize* hipMemcpy* "
            "at::native::_local_scalar_dense_cuda c10::cuda::CUDAStream::synchronize "
            "c10::cuda::device_synchronize THCPStream_synchronize THCPEvent_synchronize "
            "THCPModule_cudaSynchronize"
        ),
        native=True,
        says="waiting for the GPU",
        verified="CUDA interface",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=names("cudaLaunchKernel* cuLaunchKernel* hipLaunchKernel* hipModuleLaunch*"),
        native=True,
        says="launching a kernel (the GPU's queue is full or it hangs)",
        verified="CUDA interface",
    ),
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=names(
            "cuInit cuDevicePrimaryCtxRetain cuCtxCreate* cuModuleLoad* cuLibraryLoad* "
            "cuModuleGetFunction* cuLibraryGetKernel* cuKernelGetFunction*"
        ),
        native=True,
        says="setting up the GPU",
        scope=Scope.LOCAL,
        verified="CUDA interface",
    ),
)

DRIVERS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names(
            "ibv_modify_qp ibv_reg_mr* ibv_create_qp* ibv_create_cq* ibv_open_device "
            "ibv_alloc_pd ibv_dereg_mr ibv_destroy_qp ibv_query_gid* rdma_*"
        ),
        native=True,
        layer=Layer.MECHANISM,
        says="in an InfiniBand call (driver or firmware)",
        verified="libibverbs interface",
    ),
    # These libraries come without symbols for what is inside them.
    WaitRule(
        kind=WaitKind.CUDA_SYNC,
        functions=("0x*",),
        file="libcuda.so",
        native=True,
        layer=Layer.MECHANISM,
        says="in the CUDA driver",
        scope=Scope.MAYBE,
        verified="by name, not seen",
    ),
    *(
        WaitRule(
            kind=WaitKind.CUDA_SYNC,
            functions=("0x*",),
            file=file,
            native=True,
            layer=Layer.MECHANISM,
            says="in the ROCm runtime",
            scope=Scope.MAYBE,
            verified="by name, not seen",
        )
        for file in ("libamdhip64", "libhsa-runtime64")
    ),
    *(
        WaitRule(
            kind=WaitKind.COLLECTIVE,
            functions=("0x*",),
            file=file,
            native=True,
            layer=Layer.MECHANISM,
            says="in NCCL",
            scope=Scope.MAYBE,
            verified="by name, not seen",
        )
        for file in ("libnccl.so", "librccl.so")
    ),
)

NATIVE: tuple[WaitRule, ...] = (*C10D, *NCCL, *DRIVERS)
