"""Every warning of NCCL that is a root cause has a signature, in each wording it has had."""

from __future__ import annotations

import functools

import pytest
import regex

from whyhang import signatures
from whyhang.analyzer.findings.signature import Kind

WARN = "node3:4711:4802 [2] misc/file.cc:123 NCCL WARN "
WARN_230 = "[2026-07-04 11:02:33] node3:4711:4802 [2] file.cc:123 (aFunction) NCCL WARN "
INFO = "node3:4711:4802 [2] NCCL INFO "

ROOT_CAUSES = {
    "set-up and usage": (
        "Duplicate GPU detected : rank 5 and rank 1 both on CUDA device 1b000",
        ("Multiple ranks detected using the same GPU on this node. Set "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 "
        "to enable this configuration."),
        ("Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
        "enable this configuration."),
        "Mismatched NCCL version detected : rank 3 version 22703 rank 0 version 22602",
        ("Detected mixed local Net device counts across ranks (min 7, max 8). Set "
        "NCCL_IGNORE_NET_MISMATCH=1 to continue."),
        ("Detected mixed local CollNet device counts across ranks (min 0, max 1). Set "
        "NCCL_IGNORE_NET_MISMATCH=1 to continue."),
        "Invalid rank requested : 8/8",
        "improper usage of ncclCommInitRank: nId = 0, nranks=8",
        "Invalid config blocking attribute value 7",
        "CUDA Driver version found is 11040. Minimum requirement is 12000",
        "Attempt to use communicator before the previous operation returned ncclSuccess",
        "Broadcast : invalid root 9 (root should be in the 0..7 range)",
        "AllReduce : invalid type 77",
        "AllReduce : invalid reduction operation 12",
        "AllReduce : sendbuff argument is NULL",
        "AllReduce : sendbuff allocated on device 1 mismatchs with NCCL device 0",
        "Blocking and nonblocking communicators are not allowed in the same group.",
        "ncclGroupEnd: not in a group call.",
        "Either none or all communicators in a ncclGroup() can be CUDA graph captured.",
        ("Streams given to a communicator within a NCCL group must either be all uncaptured or all "
        "captured by the same graph."),
        "Trying to send to self without a matching recv",
        "Trying to recv to self without a matching send",
        "Fatal: host threads racing to launch NCCL on same device.",
        "Coll AllReduce size 1024 symmetric registration check failed on rank 3: window differs",
        ("No algorithm/protocol available for function AllReduce with datatype ncclFloat16. "
        "NCCL_ALGO was set to Tree."),
        "Error : no algorithm/protocol available",
        ("Split shares resources, but parent comm netName IB is different from child comm netName "
        "Socket"),
        "Comm config netName (Socket) does not match the parent (IB)",
    ),
    "bootstrap and sockets": (
        "Bootstrap : no socket interface found",
        "NET/Socket : no interface found",
        "NET/Socket : No usable listening interface found",
        "no device found matching =eth7, verify NCCL_OOB_NET_IFNAME",
        "Net : No interface found in the same subnet as remote address 10.1.0.4<43210>",
        "socketStartConnect: exceeded retries (20000)",
        "socketPollConnect: exceeded retries (20000)",
        "socketStartConnect: exceeded timeouts (3)",
        "socketStartConnect: Connect to 10.1.0.4<43210> failed : No route to host",
        ("socketPollConnect: Connect to 10.1.0.4<43210> returned 113(No route to host) errno "
        "115(Operation now in progress)"),
        ("socketPollConnect: connect to 10.1.0.4<43210> returned Connection refused, exceeded "
            "error "
        "retry count after 35 attempts"),
        ("ncclOsSocketPollConnect: connect to 10.1.0.4<43210> returned Connection timed out, "
        "exceeded error retry count after 35 attempts"),
        "socketStartConnect: connect to 10.1.0.4<43210> failed : Network is unreachable",
        "Call to connect failed : Connection refused",
        "Call to connect failed : Connection timed out",
        "Connect to 10.1.0.4<43210> failed : No route to host",
        "Call to connect timeout : Connection timed out",
        "ncclSocketTryAccept: exceeded error retry count after 35 attempts, Too many open files",
        "socketTryAccept: Accept failed: Too many open files",
        "proxy: Accept failed Too many open files",
        "socketFinalizeAccept: wrong magic 5d3b1a != 7c5d1b",
        "socketFinalizeAccept: wrong type 3 != 4",
        "socketProgressOpt: Call to recv from 10.1.0.4<43210> failed : Connection timed out",
        "ncclOsSocketProgressOpt: Call to send 10.1.0.4<43210> failed : Connection timed out",
        "Message truncated : received 1024 bytes instead of 8",
        "Bootstrap Root : mismatch in rank count from procs 8 : 16",
        "Bootstrap Root : mismatch in info from procs, nranks 8 vs 16, nroots 1 vs 1, iroot 0",
        "Bootstrap Root : rank 3 of 8 ranks has already checked in",
        "Invalid NCCL_COMM_ID, please use format: <ipv4>:<port> or [<ipv6>]:<port>",
        "UDS: Sending data over socket /tmp/nccl-socket-4-1a2b failed : Connection refused (111)",
        "UDS: Binding to socket /tmp/nccl-socket-4-1a2b failed : Address already in use (98)",
    ),
    "proxy": (
        ("[Service thread] Error encountered progressing operation=Connect, res=3, closing "
        "connection"),
        ("[Service thread] Error encountered progressing operation=SharedInit, res=2, closing "
        "connection"),
        "[Proxy Service 3] Failed to execute operation Setup from rank 3, retcode 2",
        "ncclProxyCallBlockingUDS call to tpRank 3(5d3b1a) failed : 2",
        "ncclProxyClientGetFd call to tpRank 3 handle 0x5d3b1a failed : 1",
        "Rank 3 has no transport for send peer 5 on channel 0/1",
        "[Proxy service] Too many connections (8 max)",
        "Proxy append out of bounds",
        "List loop at element 12",
        "Proxy append on running operation",
    ),
    "network": (
        ("NET/Socket : peer 10.1.0.4<43210> message truncated : receiving 1048576 bytes instead of "
        "524288. If you believe your socket network is in a healthy state, there may be a mismatch "
        "in collective sizes or environment settings (e.g. NCCL_PROTO, NCCL_ALGO) between ranks"),
        "NET/Socket : message truncated : receiving 1048576 bytes instead of 524288",
        ("NET/IB : req 0/1 tag 7 peer 10.1.0.4<43210> collective mismatch error, local size 8 "
        "remote size 16"),
        ("NET/IB : req 0/1 tag 7 peer 10.1.0.4<43210> posted incorrect receive info: size 8 addr "
        "7f00 rkeys[0]=1a"),
        ("NET/IB : Got completion from peer 10.1.0.4<43210> with error 12, opcode 0, len 0, vendor "
        "err 129 (Send)"),
        ("NET/IB : Got completion from peer 10.1.0.4<43210> with status=12 opcode=0 len=0 vendor "
        "err 129 (Recv) localGid fe80::1 remoteGids fe80::2"),
        ("NET/IB: Got completion from peer 10.1.0.4<43210> with status=IBV_WC_RETRY_EXC_ERR(12) "
        "opcode=IBV_WC_SEND(0) vendor_err=129 hca mlx5_0"),
        ("NET/IB: Got completion from peer 10.1.0.4<43210> with status=IBV_WC_LOC_PROT_ERR(4) "
        "opcode=IBV_WC_SEND(0) vendor_err=81 hca mlx5_0"),
        "NET/IB : mlx5_0:1 async fatal event: local catastrophic error",
        "NET/IB : mlx5_0:1 async fatal event on QP (0x7f00): local work queue catastrophic error",
        "NET/IB : mlx5_0:1 Got async error event: port error",
        "NET/IB : mlx5_0:1 Got async event : port error",
        "NET/IB : mlx5_0:1 Got async event : GID table change",
        "NET/IB : mlx5_0:1 GID table changed",
        "NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)",
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1",
        "Call to ibv_modify_qp failed with error Invalid argument errno 22",
        "Call to ibv_reg_mr failed with error Cannot allocate memory",
        "Call to ibv_reg_mr_iova2 failed with error Bad address errno 14",
        "Call to ibv_create_qp failed with error Cannot allocate memory errno 12",
        "Call to ibv_open_device failed",
        "NET/IB : Unable to open device mlx5_2",
        "NET/IB : Unable to query port_num 1",
        "NET/IB : No IP interface found.",
        ("NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and "
        "[1]mlx5_2:1/RoCE"),
        "NET/IB : Remote mlx5_2:1/RoCE device is incompatible with the local [0]mlx5_0:1/IB",
        "NET/IB: Fatal error. Detected 2 failed devices on the communicator",
        "NET/IB: Device 0 marked as failed. Initiating recovery? 1",
    ),
    "shared memory": (
        "Error: failed to extend /dev/shm/nccl-6rMjZu to 9637892 bytes",
        ("Error: failed to extend /dev/shm/nccl-6rMjZu to 9637892 bytes, error: No space left on "
        "device (28)"),
        "Error while creating shared memory segment /dev/shm/nccl-6rMjZu (size 9637888)",
        ("Error while attaching to shared memory segment /dev/shm/nccl-6rMjZu (size 9637888), "
        "error: No such file or directory (2)"),
        "Call to posix_fallocate failed : No space left on device",
        ("Error: failed to create shared memory file /dev/shm/nccl-6rMjZu, error No space left on "
        "device (28)"),
        "Could not map /dev/shm/nccl-6rMjZu size 9637888, error: Cannot allocate memory",
        "Error while attaching to shared memory segment /dev/shm/nccl-6rMjZu (size 9637888)",
        "CUMEM Host is not supported on this system. Set NCCL_CUMEM_HOST_ENABLE=0",
    ),
    "CUDA, P2P, NVLS": (
        "Cuda failure 'out of memory'",
        "Cuda failure 2 'out of memory'",
        "Cuda failure 'an illegal memory access was encountered'",
        "Cuda failure 700 'an illegal memory access was encountered'",
        "Cuda failure 'unspecified launch failure'",
        "Cuda failure 'device-side assert triggered'",
        "Cuda failure 'uncorrectable ECC error encountered'",
        "Cuda failure 'unknown error'",
        "Cuda failure 'GPU is lost'",
        "Cuda failure 'invalid device ordinal'",
        "Cuda failure 'peer access is not supported between these two devices'",
        "Cuda failure 'operation not supported'",
        "Cuda failure 801 'operation not supported'",
        "Cuda failure 802 'system not yet initialized'",
        "Cuda failure 1 'invalid argument'",
        "Failed to CUDA malloc 6291456 bytes",
        "Failed to CUDA calloc 6291456 bytes",
        "Failed to CUDA host alloc 6291456 bytes",
        "failed to peer with device 1(=43000): 217 peer access is not supported",
        "cudaIpcGetMemHandle failed : invalid argument",
        "cudaIpcOpenMemHandle failed : invalid resource handle",
        ("P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case given "
        "their connectivity, and is probably due to a hardware issue. If you still want to "
        "proceed, you can set NCCL_IGNORE_DISABLED_P2P=1."),
        ("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 "
        "'the operation cannot be performed in the present state'."),
        ('NCCL_NVLS_ENABLE has been set to "1" and communicator has multiple ranks using the same '
        "NVML device."),
        ("MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel "
        "configuration (/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this "
        "issue."),
        ("MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX "
        "configuration (nvidia-imex-ctl -N). Set NCCL_MNNVL_ENABLE=0 to ignore this issue."),
        "GDRCOPY failure 22",
        "gdr_pin_buffer(addr 7f00, size 65536) failed: 22",
        "No transport found for rank 0[1b000] -> rank 1[43000]",
        ("NCCL cannot be captured in a graph if either it wasn't built with CUDA runtime >= 11.3 "
            "or "
        "if the installed CUDA driver < R465."),
        "nvmlDeviceGetHandleByIndex(3) failed: Unknown Error",
        "nvmlInit_v2() failed: Driver/library version mismatch",
        "nvmlInit() failed: Driver/library version mismatch",
        "Thread creation failed: Resource temporarily unavailable",
        "pthread_create failed: Resource temporarily unavailable",
    ),
}  # fmt: skip
"""Lines after the templates of the sources of NCCL 2.2 to 2.30, without their envelope."""


@functools.cache
def causes() -> tuple[tuple[str, tuple[regex.Pattern[str], ...]], ...]:
    """Compile the patterns of all causes once."""
    return tuple(
        (s.id, tuple(map(regex.compile, s.patterns)))
        for s in signatures.load()
        if s.kind is Kind.CAUSE
    )


def matching(line: str) -> set[str]:
    """Give the causes that a line speaks for."""
    return {name for name, patterns in causes() if any(p.search(line) for p in patterns)}


@pytest.mark.parametrize("topic", ROOT_CAUSES)
def test_every_root_cause_that_nccl_warns_of_is_known(topic: str) -> None:
    """Each warning that tells a root cause is found by a cause, in every envelope."""
    lost = [
        line
        for line in ROOT_CAUSES[topic]
        if not matching(WARN + line) or not matching(WARN_230 + line)
    ]

    assert lost == []
