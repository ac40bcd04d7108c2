"""Starts ranks as torch.multiprocessing does, so that no environment of theirs names them: spawned.py N SCRIPT ARGUMENTS"""
import os, runpy, sys


def rank_main(i, world, argv):
    os.environ.update(RANK=str(i), LOCAL_RANK=str(i), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="29611")
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    import torch.multiprocessing as mp
    mp.spawn(rank_main, (int(sys.argv[1]), sys.argv[2:]), nprocs=int(sys.argv[1]))
