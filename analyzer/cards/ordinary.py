"""Lines that healthy jobs write: a pattern that finds many of them says nothing."""

LINES = (
    "Epoch 3/10:  42%|####2     | 1234/2930 [05:12<07:09,  3.95it/s, loss=2.31, lr=3e-4]",
    "iteration     1200/  500000 | consumed samples:  614400 | lm loss: 2.311E+00 | grad norm: 0.4",
    "step 1200 loss 2.3113 lr 0.00030 tokens/s 182211 mem 61.2GB",
    "{'loss': 1.8731, 'grad_norm': 0.913, 'learning_rate': 1.9e-05, 'epoch': 0.42}",
    "2025-07-04 11:02:33,123 INFO train.py:211 [rank0] step=1200 loss=2.31 time=0.412s",
    "[2025-07-04 11:02:33,123] [INFO] [engine.py:1801:_report_progress] step=1200, skipped=0",
    "[rank3]: saving checkpoint to /checkpoints/step_1200",
    "[default2]: loaded 1024 shards in 12.3 s",
    "node3:4711:4711 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
    "node3:4711:4802 [2] NCCL INFO Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM/read",
    (
        "node3:4711:4802 [2] NCCL INFO ncclCommInitRank comm 0x55d0c8a3b2c0 rank 2 nranks 8 "
        "cudaDev 2 nvmlDev 2 busId 2b000 commId 0x7c5d1b0e6a2f9034 - Init COMPLETE"
    ),
    "NCCL version 2.27.5+cuda12.9",
    "I0704 11:02:33.123456 4711 ProcessGroupNCCL.cpp:934] [PG ID 0 Rank 2] initialized",
    "INFO:root:Number of parameters: 6738415616",
    "Validation: accuracy 0.7712, perplexity 9.81",
    "wandb: Syncing run lunar-dawn-12",
    "Jul  4 11:02:33 node3 kernel: [12345.678901] nvidia-nvlink: Nvlink Core is being initialized",
    "Jul  4 11:02:33 node3 systemd[1]: Started Session 42 of user alice.",
    "slurmstepd: task_p_pre_launch: Using sched_affinity for tasks",
    "Downloading (...)model-00001-of-00015.safetensors: 100%|##########| 9.98G/9.98G",
    "0: setting tensor model-parallel size to 4",
    "  warnings.warn(",
    "done",
    "",
)
