"""Words that name no person, machine or project: they stay in paths and are no names of hosts."""

from __future__ import annotations

from whyhang.analyzer.stacks.packages import FRAMEWORKS, LIBRARIES, SCRIPTS, STDLIB_PACKAGES

_WORDS = """
    bin boot conda cuda data dev disk docker envs etc home lib lib64 local log logs media miniconda
    miniconda3 anaconda anaconda3 miniforge3 mambaforge mnt net nfs lustre gpfs opt packages pkgs proc
    python root run sbin scratch share shm site dist src srv sys tmp usr users user var venv
    workspace work

    accelerate address agent aggregate all allreduce app array async attempt autograd backend
    backward barrier base bash batch bench benchmark broadcast bucket build bundle cache callback
    checkpoint checkpoints ckpt ckpts claims clean cli cluster code collate collective collect comm
    common compile config configs container context core cpu crash csv current dataloader dataset
    datasets ddp debug deepspeed default demo dist distributed dmesg dump dumps end engine entry env
    error errors eval evaluate evaluation events exec exit example examples excerpts experiment
    experiments exits fast faulthandler file files finetune first flight forward frame fsdp gaps
    gather gdb gloo gpu gpus grad group head helper helpers host hosts hostfile hub hydra image images
    index inductor info init input inputs io ipc job jobs json kernel kernels kubectl last latest
    launch launcher layer layers learn lib link list load loader local lock log logger look loop loss
    main manifest master memory messages metrics mixed model models module modules monitor mount mpi
    mpirun multi namespace native nccl network new node nodes none nvidia nvlink nvml offload old
    ops optim optimizer out output outputs parallel part peers perf pid pipe pipeline pod pods pool
    post ppo prefetch preprocess pretrain prime private probe process processes prof profile profiler
    progress project projects py pyspy pystack python queue rank ranks ras raw rccl readme record
    recorder recv reduce repo repos report reports resume retry reward rlhf role rollout rollouts root
    run runner runs runtime sample samples save sbatch scatter scheduler script scripts scratch send
    server service shard shards shared shell smi snapshot socket sock source split srun stack stacks
    stage start state stats status stderr stdin stdout step steps storage store stores stream stuck sub
    submit sync system table task tasks temp tensor test tests thread threads timeout tmp token
    tokenizer tokens tool tools top torch torchelastic torchinductor torchrun trace traceback tracker
    train trainer training transformer tree triton tune ucx unit update upload user util utils val
    valid validate validation version view wandb warm watch watchdog web weight weights work worker
    workers world wrapper write xid zero

    yaml yml toml txt err ini cfg conf md html xml sql tar zst gz xz zip tgz pkl pickle npy npz pth
    safetensors parquet arrow jsonl ipynb pyx pyd pyc whl egg cpp cxx hpp cuh dylib

    libc libm libdl librt ld libpthread libstdc libgcc libgomp libcuda libcudart libcudnn libcublas
    libnvidia libnccl librccl libtorch libc10 libshm libgloo libmpi libopen libpmix libucp libucs libuct
    libucm libfabric libibverbs libmlx4 libmlx5 librdmacm libuv libssl libcrypto libz libpython libffi
    libnuma libhwloc libxpmem liblustreapi pal rte slave slaves driver tail stdouts stderrs blocked
    stopped stuck hang hung frozen late missing

    processgroupnccl processgroupgloo processgroupwrapper processgroupucc tcpstore filestore ncclutils
    heartbeatmonitor flightrecorder reducer exception bootstrap transport proxy p2p coll channel cc

    linux ubuntu debian centos rhel x86 amd64 arm64 aarch64 gnu nccltrace noarch

    amazon azure gcp aws google ibm intel amd meta microsoft slurm slurmd slurmstepd kubernetes k8s ray
    infiniband mlx rdma roce eth bond docker0 lo ens ibs

    alpha beta gamma small medium large tiny huge big
    self cls args kwargs numpy np true false null yes no on off and the for not with from into
    localhost localdomain cluster svc internal example com org net edu gov admin nobody ec2 daemon
    anonymous guest
"""
COMMON = frozenset(_WORDS.split())
"""Words of computing, in lower case."""

PACKAGES = FRAMEWORKS | LIBRARIES | STDLIB_PACKAGES
"""Packages that everybody has: the files in them are no secret."""

PUBLIC_WORDS = COMMON | {word.lower() for word in PACKAGES | SCRIPTS}

PUBLIC_SITES = (
    "pytorch.org",
    "docs.pytorch.org",
    "docs.nvidia.com",
    "slurm.schedmd.com",
    "docs.open-mpi.org",
    "kubernetes.io",
    "horovod.readthedocs.io",
    "docs.jax.dev",
    "rocm.docs.amd.com",
    "docs.python.org",
    "docs.kernel.org",
    "lightning.ai",
)
"""Documentation that reports point to; addresses below these stay whole."""
