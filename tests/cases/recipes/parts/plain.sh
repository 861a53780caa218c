python3 train.py $(cat "$ATTUNE_ARGS_FILE")
