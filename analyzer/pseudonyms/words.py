"""Words that name no person, machine or project: they stay in paths and are no names of hosts."""

from whyhang.analyzer.stacks.packages import FRAMEWORKS, LIBRARIES, SCRIPTS, STDLIB_PACKAGES

_WORDS = """
    anaconda anaconda3 bin boot conda cuda data dev disk dist docker envs etc gpfs home lib
    lib64 local log logs lustre mambaforge media miniconda miniconda3 miniforge3 mnt net nfs opt
    packages pkgs proc python root run sbin scratch share shm site src srv sys tmp user users
    usr var venv work workspace

    accelerate address agent aggregate all allreduce app array async attempt autograd backend
    backward barrier base bash batch bench benchmark broadcast bucket build bundle cache
    callback checkpoint checkpoints ckpt ckpts claims clean cli cluster code collate collect
    collective comm common compile config configs container context core cpu crash csv current
    dataloader dataset datasets ddp debug deepspeed default demo distributed dmesg dump dumps
    end engine entry env error errors eval evaluate evaluation events example examples excerpts
    exec exit exits experiment experiments fast faulthandler file files finetune first flight
    forward frame fsdp gaps gather gdb gloo gpu gpus grad group head helper helpers host
    hostfile hosts hub hydra image images index inductor info init input inputs io ipc job jobs
    json kernel kernels kubectl last latest launch launcher layer layers learn link list load
    loader lock logger look loop loss main manifest master memory messages metrics mixed model
    models module modules monitor mount mpi mpirun multi namespace native nccl network new node
    nodes none nvidia nvlink nvml offload old ops optim optimizer out output outputs parallel
    part peers perf pid pipe pipeline pod pods pool post ppo prefetch preprocess pretrain prime
    private probe process processes prof profile profiler progress project projects py pyspy
    pystack queue rank ranks ras raw rccl readme record recorder recv reduce repo report reports
    repos resume retry reward rlhf role rollout rollouts runner runs runtime sample samples save
    sbatch scatter scheduler script scripts send server service shard shards shared shell smi
    snapshot sock socket source split srun stack stacks stage start state stats status stderr
    stdin stdout step steps storage store stores stream stuck sub submit sync system table task
    tasks temp tensor test tests thread threads timeout token tokenizer tokens tool tools top
    torch torchelastic torchinductor torchrun trace traceback tracker train trainer training
    transformer tree triton tune ucx unit update upload util utils val valid validate validation
    version view wandb warm watch watchdog web weight weights worker workers world wrapper write
    xid zero

    arrow cfg conf cpp cuh cxx dylib egg err gz hpp html ini ipynb jsonl md npy npz parquet
    pickle pkl pth pyc pyd pyx safetensors sql tar tgz toml txt whl xml xz yaml yml zip zst

    blocked driver frozen hang hung late ld libc libc10 libcrypto libcublas libcuda libcudart
    libcudnn libdl libfabric libffi libgcc libgloo libgomp libhwloc libibverbs liblustreapi libm
    libmlx4 libmlx5 libmpi libnccl libnuma libnvidia libopen libpmix libpthread libpython
    librccl librdmacm librt libshm libssl libstdc libtorch libucm libucp libucs libuct libuv
    libxpmem libz missing pal rte slave slaves stderrs stdouts stopped tail

    bootstrap cc channel coll exception filestore flightrecorder heartbeatmonitor ncclutils p2p
    processgroupgloo processgroupnccl processgroupucc processgroupwrapper proxy reducer tcpstore
    transport

    aarch64 amd64 arm64 centos debian gnu linux nccltrace noarch rhel ubuntu x86

    amazon amd aws azure bond docker0 ens eth gcp google ibm ibs infiniband intel k8s kubernetes
    lo meta microsoft mlx ray rdma roce slurm slurmd slurmstepd

    admin alpha and anonymous args beta big cls com daemon ec2 edu false for from gamma gov
    guest huge internal into kwargs large localdomain localhost medium no nobody not np null
    numpy off on org self small svc the tiny true with yes
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

PUBLIC_DOMAINS = ("nvidia.com", *PUBLIC_SITES)
"""Whose names are no names of hosts of the job."""

_ENGLISH = """
    all another any are as at be been by can could did do does each every first for from had has
    have he her here his how if in is it its last may more most my new no not of one only other
    others our purpose same several she should signal so some such than that the their them
    there these they this those two until was we were what when where whether which while who
    whose why will with would yet you your
"""
ENGLISH = frozenset(_ENGLISH.split())
"""Words that may stand where a host could, and are none."""
