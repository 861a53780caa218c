"""Arguments of train.py: Megatron-LM's names and meanings, the subset this trainer honours.

Nothing here imports torch: the process that only starts the ranks needs the arguments, not the
second and a half that importing torch takes.
"""

import argparse
import os

# Implemented in attention.py, which imports torch.
ATTENTION_NAMES = ["matmul", "baddbmm", "einsum", "chunked", "sdpa"]

# A byte is a token. Megatron-LM pads the vocabulary to a multiple of 128; 256 already is one.
VOCAB_SIZE = 256


def parse_args(argv):
    """Returns the validated arguments, with the derived ones (world_size, ...) filled in."""
    # Abbreviations are off because a tuner compares flags by name: `--save` must never be
    # read as the start of `--save-interval`.
    parser = argparse.ArgumentParser(prog="train.py", allow_abbrev=False,
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    _add_model(parser)
    _add_training(parser)
    _add_checkpointing(parser)
    _add_validation_and_data(parser)
    _add_logging(parser)
    _add_performance(parser)
    args = parser.parse_args(argv)
    _derive(args)
    validate_args(args)
    return args


def _add_model(parser):
    group = parser.add_argument_group("model")
    group.add_argument("--num-layers", type=int, default=4)
    group.add_argument("--hidden-size", type=int, default=128)
    group.add_argument("--ffn-hidden-size", type=int, default=None, help="4 x hidden size if unset")
    group.add_argument("--num-attention-heads", type=int, default=4)
    group.add_argument("--seq-length", type=int, default=128)
    group.add_argument("--max-position-embeddings", type=int, default=None,
                       help="sequence length if unset")
    group.add_argument("--init-method-std", type=float, default=0.02)
    group.add_argument("--num-experts", type=int, default=None, help="unset: a dense model")
    group.add_argument("--moe-ffn-hidden-size", type=int, default=None,
                       help="width of one expert; ffn hidden size if unset")
    group.add_argument("--moe-router-topk", type=int, default=2)
    group.add_argument("--moe-router-load-balancing-type", default="aux_loss",
                       choices=["aux_loss", "seq_aux_loss", "none"],
                       help="balance over a micro-batch, over each sequence, or not at all")
    group.add_argument("--moe-aux-loss-coeff", type=float, default=0.0)


def _add_training(parser):
    group = parser.add_argument_group("training")
    group.add_argument("--micro-batch-size", type=int, default=1)
    group.add_argument("--global-batch-size", type=int, default=16)
    group.add_argument("--train-iters", type=int, default=1000)
    group.add_argument("--exit-interval", type=int, default=None,
                       help="leave after an iteration divisible by this one")
    group.add_argument("--lr", type=float, default=3e-4)
    group.add_argument("--min-lr", type=float, default=0.0)
    group.add_argument("--lr-decay-style", choices=["constant", "linear", "cosine"],
                       default="cosine")
    group.add_argument("--lr-decay-iters", type=int, default=None, help="train iters if unset")
    group.add_argument("--lr-warmup-iters", type=int, default=0)
    group.add_argument("--weight-decay", type=float, default=0.01)
    group.add_argument("--clip-grad", type=float, default=1.0, help="0 turns clipping off")
    group.add_argument("--adam-beta1", type=float, default=0.9)
    group.add_argument("--adam-beta2", type=float, default=0.999)
    group.add_argument("--adam-eps", type=float, default=1e-8)
    group.add_argument("--seed", type=int, default=1234)
    group.add_argument("--no-check-for-nan-in-loss-and-grad", action="store_false",
                       dest="check_for_nan_in_loss_and_grad",
                       help="skip the update instead of stopping when a loss is not finite")


def _add_checkpointing(parser):
    group = parser.add_argument_group("checkpointing")
    group.add_argument("--save", default=None, help="folder that checkpoints are written to")
    group.add_argument("--save-interval", type=int, default=None)
    group.add_argument("--load", default=None, help="folder that a checkpoint is read from")
    group.add_argument("--ckpt-step", type=int, default=None, help="load this one, not the latest")
    group.add_argument("--finetune", action="store_true",
                       help="load weights only and count iterations from 0")


def _add_validation_and_data(parser):
    group = parser.add_argument_group("data and validation")
    group.add_argument("--data-path", nargs="*", default=None,
                       help="text files and folders, read as bytes in this order")
    group.add_argument("--split", default="969,30,1",
                       help="shares of train, validation and test text")
    group.add_argument("--eval-interval", type=int, default=1000)
    group.add_argument("--eval-iters", type=int, default=100, help="0 turns evaluation off")
    group.add_argument("--num-workers", type=int, default=0,
                       help="processes that read data ahead; 0 reads between the steps")


def _add_logging(parser):
    group = parser.add_argument_group("logging and profiling")
    group.add_argument("--log-interval", type=int, default=100)
    group.add_argument("--profile", action="store_true", help="write a chrome trace")
    group.add_argument("--profile-step-start", type=int, default=10,
                       help="first profiled step, counted from the start of this process")
    group.add_argument("--profile-step-end", type=int, default=12,
                       help="iteration (absolute) at which profiling ends, itself not profiled")
    group.add_argument("--profile-ranks", type=int, nargs="+", default=[0])
    group.add_argument("--profile-dir", default=None, help="folder that traces are written to")


def _add_performance(parser):
    """What a run may change without changing what is learned."""
    group = parser.add_argument_group("performance")
    group.add_argument("--num-ranks", type=int, default=1,
                       help="data-parallel ranks to start on this machine, unless RANK says that "
                            "something else started them")
    group.add_argument("--distributed-backend", choices=["auto", "gloo", "nccl"], default="auto")
    group.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    group.add_argument("--attention-impl", choices=ATTENTION_NAMES, default="matmul")
    group.add_argument("--moe-expert-impl", choices=["loop", "sorted"], default="loop")
    group.add_argument("--optimizer-impl", choices=["single", "foreach", "flat"], default="single")
    group.add_argument("--grad-sync", choices=["every-micro", "last-micro"], default="every-micro",
                       help="average gradients over ranks after each micro-batch or once a step")
    group.add_argument("--ddp-bucket-size", type=int, default=None,
                       help="parameters in one gradient bucket; PyTorch's 25 MiB if unset")
    group.add_argument("--recompute-granularity", choices=["full", "selective"], default=None,
                       help="full recomputes whole layers, selective the attention core alone")
    group.add_argument("--recompute-method", choices=["uniform", "block"], default=None)
    group.add_argument("--recompute-num-layers", type=int, default=None,
                       help="uniform: layers in one recomputed piece; block: layers recomputed")


def _derive(args):
    if args.ffn_hidden_size is None:
        args.ffn_hidden_size = 4 * args.hidden_size
    if args.moe_ffn_hidden_size is None:
        args.moe_ffn_hidden_size = args.ffn_hidden_size
    if args.max_position_embeddings is None:
        args.max_position_embeddings = args.seq_length
    if args.lr_decay_iters is None:
        args.lr_decay_iters = args.train_iters
    args.padded_vocab_size = VOCAB_SIZE
    # RANK in the environment means that a launcher started the ranks (env://, as torchrun and srun
    # scripts do); its word on how many there are wins over --num-ranks.
    args.rank = int(os.environ.get("RANK", "0"))
    args.world_size = int(os.environ["WORLD_SIZE"]) if "RANK" in os.environ else args.num_ranks
    # Data parallelism is the only kind here.
    args.data_parallel_size = args.world_size


def validate_args(args):
    """Raises ValueError for a combination that can't run; each message names the values seen."""
    def require(condition, message):
        if not condition:
            raise ValueError(message)

    for name in ("num_layers", "hidden_size", "num_attention_heads", "seq_length",
                 "micro_batch_size", "global_batch_size", "num_ranks", "world_size",
                 "log_interval", "eval_interval"):
        require(getattr(args, name) > 0,
                f"--{name.replace('_', '-')} must be positive, not {getattr(args, name)}")
    for name in ("exit_interval", "save_interval", "ddp_bucket_size", "recompute_num_layers"):
        value = getattr(args, name)
        require(value is None or value > 0,
                f"--{name.replace('_', '-')} must be positive, not {value}")
    require(args.hidden_size % args.num_attention_heads == 0,
            f"hidden size ({args.hidden_size}) is not divisible by the number of attention heads "
            f"({args.num_attention_heads})")
    require(args.max_position_embeddings >= args.seq_length,
            f"max position embeddings ({args.max_position_embeddings}) is below the sequence "
            f"length ({args.seq_length})")
    step = args.micro_batch_size * args.data_parallel_size
    require(args.global_batch_size % step == 0,
            f"global batch size ({args.global_batch_size}) is not divisible by micro batch size "
            f"({args.micro_batch_size}) times data parallel size ({args.data_parallel_size})")
    require(args.lr_warmup_iters < args.lr_decay_iters,
            f"--lr-warmup-iters ({args.lr_warmup_iters}) must be below the decay iterations "
            f"({args.lr_decay_iters})")
    require(args.data_path, "--data-path names no text to train on")
    require(args.save_interval is None or args.save is not None, "--save-interval needs --save")
    require(args.num_workers >= 0, f"--num-workers must not be negative, not {args.num_workers}")
    if args.num_experts is not None:
        require(args.num_experts >= 2, f"--num-experts must be at least 2, not {args.num_experts}")
        require(1 <= args.moe_router_topk <= args.num_experts,
                f"--moe-router-topk ({args.moe_router_topk}) must lie between 1 and the number of "
                f"experts ({args.num_experts})")
    _validate_recompute(args, require)
    require(not args.profile or args.profile_dir, "--profile needs --profile-dir")


def _validate_recompute(args, require):
    if args.recompute_granularity == "full":
        require(args.recompute_method is not None and args.recompute_num_layers is not None,
                "--recompute-granularity full needs --recompute-method and --recompute-num-layers")
        require(args.recompute_num_layers <= args.num_layers,
                f"--recompute-num-layers ({args.recompute_num_layers}) is above the number of "
                f"layers ({args.num_layers})")
    else:
        require(args.recompute_method is None and args.recompute_num_layers is None,
                "--recompute-method and --recompute-num-layers need --recompute-granularity full")
