"""Recognition: every family of communication kernels, and none of what only sounds like one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nhalf.collective import Algorithm, Op
from nhalf.errors import InputError
from nhalf.trace.recognition import Recogniser, function_of, operation, sounds_like_communication, standard, with_own

if TYPE_CHECKING:
    from pathlib import Path

RECOGNISER = Recogniser(standard())
A, G, S, M, T, B, R = (
    Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.SEND_RECV, Op.ALL_TO_ALL, Op.BARRIER, Op.REDUCE
)  # fmt: skip

COMMUNICATION = [
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", A, Algorithm.RING),
    ("ncclDevKernel_AllReduce_Sum_f32_TREE_LL128(x)", A, Algorithm.CHAIN_TREE),
    ("ncclDevKernel_AllReduce_Sum_f32_NVLS_TREE_SIMPLE(x)", A, Algorithm.NVLS),
    ("ncclDevKernel_AllReduce_Sum_f16_COLLNET_CHAIN_SIMPLE(x)", A, Algorithm.SHARP),
    ("ncclDevKernel_AllGather_PAT_SIMPLE(x)", G, Algorithm.BRUCK),
    ("ncclDevKernel_AllGatherV_RING_LL(x)", G, Algorithm.RING),
    ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(x)", S, Algorithm.RING),
    ("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", R, Algorithm.RING),
    ("ncclDevKernel_Broadcast_RING_LL(x)", Op.BROADCAST, Algorithm.RING),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", M, None),
    ("ncclDevKernel_Generic_4(x)", A, None),
    ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", A, Algorithm.RING),
    ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", A, Algorithm.RING),
    ("ncclKernelAllGatherCtranRing(x)", G, None),
    ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(x)", A, Algorithm.ONE_SHOT),
    ("ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_f16(x)", A, Algorithm.NVLS),
    ("ncclSymkDevKernel_ReduceScatter_LD(x)", S, None),
    ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", A, None),
    ("hcom_allReduce__428_0_1", A, None),
    ("hcom_reduceScatter_", S, None),
    ("hcom_alltoallvc__7_1_1", T, None),
    ("hcom_batchSendRecv__7_1_1", M, None),
    ("persistent_all_reduce_two_shot", A, Algorithm.TWO_SHOT),
    ("persistent_all_gather", G, None),
    ("allreduce_one_shot_push_intra_node_kernel", A, Algorithm.ONE_SHOT),
    ("reduce_scatter_ring_push_1d_intra_node_kernel", S, Algorithm.RING),
    ("my_fancy_AllToAll_kernel<4>(x)", T, None),
    ("rcclGenericKernel<1>(x)", A, None),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, int)", A, Algorithm.ONE_SHOT),
    ("void sglang::cross_device_reduce_2stage<half, 8>(x)", A, Algorithm.TWO_SHOT),
    ("void aiter::cross_device_reduce_2stage_write_mode<x>(y)", A, Algorithm.TWO_SHOT),
    ("_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li4EEEvPNS_8RankDataE", A, Algorithm.ONE_SHOT),
    ("void quickreduce::allreduce_prototype_twoshot<x>(y)", A, Algorithm.TWO_SHOT),
    (
        "void c10d::symmetric_memory::(anonymous namespace)::two_shot_all_reduce_kernel_inplace<x>(y)",
        A,
        Algorithm.TWO_SHOT,
    ),
    ("one_shot_all_reduce_kernel<x>(y)", A, Algorithm.ONE_SHOT),
    ("multimem_all_reduce_kernel<c10::BFloat16, 16>(x)", A, Algorithm.NVLS),
    ("multimem_one_shot_all_reduce_kernel(x)", A, Algorithm.NVLS),
    ("multimem_all_gather_kernel(x)", G, Algorithm.NVLS),
    ("flashinfer::mixed_comm::fused_allreduce_allgather_kernel<4>(x)", A, None),
    ("flashinfer::mixed_comm::reducescatter_kernel<4>(x)", S, None),
    ("ipc_tp2_remote_push_kernel(x)", A, None),
    ("ipc_rsag_kernel(x)", A, None),
    ("push_oneshot_param_kernel(x)", A, Algorithm.ONE_SHOT),
    ("twoshotAllreduceKernel<x>(y)", A, Algorithm.TWO_SHOT),
    ("moeA2AIsNot::moeA2ADispatchKernel(x)", T, None),
    ("helixAllToAllKernel(x)", T, None),
    ("void deep_ep::internode_ll::dispatch<true, 3>(x)", T, None),
    ("void deep_ep::intranode::cached_notify_combine<8>(x)", T, None),
    ("dpsk::ep::internode::combine(x)", T, None),
    ("deep_ep::hybrid_dispatch_impl(x)", T, None),
    ("combine_reduce_epilogue_impl<1>(x)", T, None),
    ("deep_ep::barrier_impl(x)", B, None),
    ("deep_ep::pp_send_recv(x)", M, None),
    ("pplx_kernels::all_to_all::dispatch_kernel(x)", T, None),
    ("nvshmemi_transfer_rma_nbi(x)", M, None),
    ("mscclpp::allreduce(x)", A, None),
    ("dlslime::ops::alltoall_kernel(x)", T, None),
]
FUSED = [
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(x)1, __nv_bfloat16, 8>(y)",
    "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_twoshot_sync<(x)1>(y)",
    "tensorrt_llm::_v1::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport(x)",
    "lamport_style_one_shot_all_reduce_norm_kernel<x>(y)",
    "oneshotAllreduceFusionKernel<x>(y)",
    "moereduce_allreduce_fusion_kernel_oneshot_lamport(x)",
    "moefinalize_allreduce_fusion_kernel_oneshot_lamport(x)",
    "void aiter::allreduce_fusion_kernel_1stage_per_group<__hip_bfloat16, 8, 4>(x)",
]
COMPUTE = [
    "_combined_routing_memset",
    "reduce_segments",
    "paged_attention_ll4mi_reduce_kernel",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(x)",
    "void splitKreduce_kernel<32, 16>(x)",
    "void cub::DeviceReduceKernel<x>(y)",
    "Dispatch Task",
    "void flashinfer::norm::rms_norm_kernel<x>(y)",
    "flashinfer::trtllm_allreduce::lamport_initialize_kernel(x)",
    "computeCountAndIndiceDevice(x)",
    "deep_ep::intranode::get_dispatch_layout<1>(x)",
    "deep_ep::internode_ll::clean_low_latency_buffer(x)",
    "void at::native::vectorized<AllReduceFusionParams>(ncclComm*)",
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
    "combine",
    "dispatch",
]


@pytest.mark.parametrize(("name", "op", "algorithm"), COMMUNICATION)
def test_communication_is_recognised(name: str, op: Op, algorithm: Algorithm | None) -> None:
    seen = RECOGNISER.see(name)
    assert seen is not None
    assert (seen.op, seen.algorithm, seen.fused) == (op, algorithm, False)


@pytest.mark.parametrize("name", FUSED)
def test_fused_kernels_are_communication_and_norm(name: str) -> None:
    seen = RECOGNISER.see(name)
    assert seen is not None
    assert (seen.op, seen.fused) == (Op.ALL_REDUCE, True)


@pytest.mark.parametrize("name", COMPUTE)
def test_compute_is_not_communication(name: str) -> None:
    assert RECOGNISER.see(name) is None


def test_a_collective_inside_a_matrix_product_is_fused() -> None:
    seen = RECOGNISER.see("kernel_consumer_gemm_all_gather_persistent")
    assert seen is not None
    assert (seen.op, seen.fused) == (G, True)


def test_the_group_size_is_read_from_the_template() -> None:
    sizes = [RECOGNISER.see(name) for name in (COMMUNICATION[28][0], COMMUNICATION[29][0], FUSED[0])]
    assert [seen and seen.ranks for seen in sizes] == [4, 8, 8]


def test_unknown_kernels_that_sound_like_communication_are_suspects() -> None:
    assert sounds_like_communication("my_fancy_all_reduce<4>(x)")
    assert not sounds_like_communication("gemm(AllReduceParams)")


def test_functions_are_found_in_names_of_every_kind() -> None:
    assert function_of("void a::(anonymous namespace)::b<c<d>>(e)") == "a::b"
    assert function_of("_ZN7deep_ep12internode_ll8dispatchILb1EEEvv") == "deep_ep::internode_ll::dispatch"
    assert function_of("_ZN12_GLOBAL__N_13fooEv") == "foo"
    assert function_of("plain") == "plain"


@pytest.mark.parametrize(
    ("text", "op"),
    [
        ("allreduce", A), ("_allgather_base", G), ("all_gather_into_tensor_coalesced", G), ("reduce_scatter_tensor", S),
        ("all_to_allv", T), ("gloo:all_to_all", T), ("nccl:all_reduce", A), ("barrier", B), ("send", M), ("wait", None),
    ],
)  # fmt: skip
def test_operations_by_the_words_of_traces(text: str, op: Op | None) -> None:
    assert operation(text) is op


def test_a_user_adds_patterns_that_come_first(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[pattern]]\nfamily = "mine"\nop = "all-gather"\nfunction = "my_\\\\w+"\n'
                   '[[pattern]]\nfamily = "off"\nnot = true\nfunction = "ncclDevKernel_Generic\\\\w*"\n')  # fmt: skip
    recogniser = Recogniser(with_own([own]))
    seen = recogniser.see("my_gather<1>(x)")
    assert seen is not None
    assert (seen.family, seen.op) == ("mine", Op.ALL_GATHER)
    assert recogniser.see("ncclDevKernel_Generic(x)") is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("x", "cannot be read"),
        ("a = 1", "holds no patterns"),
        ('[[pattern]]\nfamily = "a"\nop = "all-reduce"\nfunction = "("', "no regular expression"),
        ('[[pattern]]\nfamily = "a"\nfunction = "b"', "no operation"),
        ('[[pattern]]\nfunktion = "b"', "no pattern"),
        ('[[pattern]]\nop = "all-redce"\nfunction = "b"', "all-reduce"),
    ],
)
def test_wrong_patterns_are_refused(tmp_path: Path, content: str, says: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(content)
    with pytest.raises(InputError, match=says):
        with_own([own])
