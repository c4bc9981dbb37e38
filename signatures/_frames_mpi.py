"""Native frames (C and C++): MPI, of Open MPI and MPICH."""

from __future__ import annotations

from whyhang.analyzer.waits import WaitKind, WaitRule, names

_MPI_OPS = (
    ("Barrier", "barrier"),
    ("Bcast", "bcast"),
    ("Allreduce", "allreduce"),
    ("Reduce", "reduce"),
    ("Allgather", "allgather"),
    ("Allgatherv", "allgatherv"),
    ("Gather", "gather"),
    ("Gatherv", "gatherv"),
    ("Scatter", "scatter"),
    ("Scatterv", "scatterv"),
    ("Alltoall", "alltoall"),
    ("Alltoallv", "alltoallv"),
    ("Alltoallw", "alltoallw"),
    ("Reduce_scatter", "reduce_scatter"),
    ("Reduce_scatter_block", "reduce_scatter_block"),
    ("Scan", "scan"),
    ("Exscan", "exscan"),
    ("Ibarrier", "ibarrier"),
    ("Comm_dup", "comm_dup"),
    ("Comm_split", "comm_split"),
    ("Comm_split_type", "comm_split_type"),
    ("Comm_create", "comm_create"),
    ("Comm_create_group", "comm_create_group"),
    ("Comm_free", "comm_free"),
    ("Comm_connect", "comm_connect"),
    ("Comm_accept", "comm_accept"),
    ("Comm_spawn", "comm_spawn"),
    ("Intercomm_create", "intercomm_create"),
    ("Win_create", "win_create"),
    ("Win_allocate", "win_allocate"),
    ("Win_fence", "win_fence"),
    ("Win_lock", "win_lock"),
    ("Win_unlock", "win_unlock"),
    ("Win_free", "win_free"),
    ("File_open", "file_open"),
    ("File_close", "file_close"),
    ("File_read_all", "file_read_all"),
    ("File_write_all", "file_write_all"),
    ("Send", "send"),
    ("Ssend", "ssend"),
    ("Bsend", "bsend"),
    ("Rsend", "rsend"),
    ("Recv", "recv"),
    ("Sendrecv", "sendrecv"),
    ("Sendrecv_replace", "sendrecv_replace"),
    ("Probe", "probe"),
    ("Mprobe", "mprobe"),
    ("Mrecv", "mrecv"),
    ("Wait", "wait"),
    ("Waitall", "waitall"),
    ("Waitany", "waitany"),
    ("Waitsome", "waitsome"),
    ("Init", "init"),
    ("Init_thread", "init"),
    ("Finalize", "finalize"),
)

MPI: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.MPI,
            functions=(f"PMPI_{name}", f"MPI_{name}", f"PMPI_{name}_c", f"MPI_{name}_c"),
            native=True,
            op=op,
            says=f"in MPI_{name}",
            verified="in part run Open MPI 4.1",
        )
        for name, op in _MPI_OPS
    ),
    *(
        # mpi4py's own functions: the lower-case ones make several MPI calls.
        WaitRule(
            kind=WaitKind.MPI,
            functions=(name, name.lower()),
            file="mpi4py",
            native=True,
            op=op,
            says=f"in mpi4py's {name}",
            verified="in part run Open MPI 4.1",
        )
        for name, op in (
            *_MPI_OPS,
            ("Dup", "comm_dup"),
            ("Split", "comm_split"),
            ("Split_type", "comm_split_type"),
            ("Create", "comm_create"),
            ("Create_group", "comm_create_group"),
            ("Allocate", "win_allocate"),
            ("Fence", "win_fence"),
        )
    ),
    *(
        WaitRule(
            kind=WaitKind.MPI,
            functions=functions,
            native=True,
            op=op,
            says=f"in MPI {op}",
            verified="in part run Open MPI 4.1",
        )
        for functions, op in (
            (("ompi_coll_base_barrier*", "ompi_coll_tuned_barrier*"), "barrier"),
            (("ompi_coll_base_allreduce*", "ompi_coll_tuned_allreduce*"), "allreduce"),
            (("ompi_coll_base_bcast*", "ompi_coll_tuned_bcast*"), "bcast"),
            (("ompi_coll_base_allgather*", "ompi_coll_tuned_allgather*"), "allgather"),
            (("ompi_coll_base_alltoall*", "ompi_coll_tuned_alltoall*"), "alltoall"),
            (("ompi_coll_base_reduce*", "ompi_coll_tuned_reduce*"), "reduce"),
            (("ompi_coll_base_gather*", "ompi_coll_tuned_gather*"), "gather"),
            (("ompi_coll_base_scatter*", "ompi_coll_tuned_scatter*"), "scatter"),
            (("ompi_comm_dup*",), "comm_dup"),
            (("ompi_comm_split*",), "comm_split"),
        )
    ),
    WaitRule(
        kind=WaitKind.MPI,
        functions=names("PMPI_* ompi_mpi_init ompi_comm_nextcid MPIDI_* MPIR_*"),
        native=True,
        says="in an MPI call",
        verified="run Open MPI 4.1",
    ),
)
