"""Advice: what each cause is called, in words that follow "most likely", and what to try against it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Advice(NamedTuple):
    """A cause in words, and what to try; nothing where nothing is wrong."""

    says: str
    try_: str


ADVICE: Final = {
    "tcp": Advice(
        "the library talks through sockets (TCP) instead of RDMA",
        "NCCL_DEBUG=INFO: look for NET/Socket; unset NCCL_IB_DISABLE, load the plug-in, list NICs in NCCL_IB_HCA"),
    "no-gdr": Advice(
        "the NICs copy through host memory (no GPU-direct RDMA)",
        "load nvidia-peermem (or a kernel with dma-buf) and gdrcopy; NCCL_DEBUG=INFO should then say GDRDMA"),
    "rails": Advice(
        "only some of a node's NICs carry the traffic",
        "NCCL_DEBUG=INFO: count the NICs behind 'NET/IB : Using'; list all of them in NCCL_IB_HCA"),
    "half-speed-link": Advice(
        "a link runs at half its speed",
        "compare ibstat's Rate, lspci's LnkSta and nvidia-smi nvlink -s with what was bought; reseat what is slower"),
    "host-bounce": Advice(
        "messages between GPUs go through host memory (P2P off)",
        "nvidia-smi topo -p2p r; unset NCCL_P2P_DISABLE; in virtual machines and containers check ACS and the IOMMU"),
    "nic-affinity": Advice(
        "GPUs use NICs that are far from them",
        "nvidia-smi topo -m: every GPU needs a NIC at PIX or PXB; pass NICs to the pod in the order of its GPUs"),
    "protocol-capped": Advice(
        "the library is held to a slow protocol or to few channels",
        "unset NCCL_PROTO, NCCL_ALGO and NCCL_MAX_NCHANNELS; on Slingshot raise the CXI queues and thresholds"),
    "nvls-off": Advice(
        "the switches do not add up (NVLS off)",
        "unset NCCL_NVLS_ENABLE and NCCL_ALGO; the fabric manager must run, and a group must hold whole nodes"),
    "other-jobs": Advice(
        "other jobs share the links",
        "run it again when the machine is empty, and three times: spread that stays is not from other jobs"),
    "mtu": Advice(
        "packets are small (MTU)",
        "ibv_devinfo: active_mtu should be 4096; on Ethernet set an MTU of 9000 on NICs and switches"),
    "slow-rank": Advice(
        "one rank starts late or runs slowly",
        "nhalf trace of all ranks names it; compare clocks and temperatures by nvidia-smi -q -d CLOCK,TEMPERATURE"),
    "slow-pair": Advice(
        "some pairs are slower than the rest",
        "swap the cable or the port that they share, or leave that node out, and measure these pairs again"),
    "waiting": Advice(
        "the ranks wait for each other more than they send",
        "balance the work before the collective: a wider link does not shorten a wait"),
    "host-timed": Advice(
        "the times are those of the host that enqueues, not of the GPU",
        "time with CUDA events, or wait for the stream before the clock is read"),
    "normal": Advice("nothing is wrong with it", ""),
}  # fmt: skip
"""The causes by their codes."""
