/**
 * The C type of a field or an argument: enumerations and ids are `int32`, pointers are `pointer` except those to texts,
 * and structs that are passed by value have their C name.
 */
export type CType =
  | 'void'
  | 'bool'
  | 'int32'
  | 'uint32'
  | 'int64'
  | 'uint64'
  | 'size_t'
  | 'float'
  | 'pointer'
  | 'string'
  | 'bool[512]'
  | StructName

/** The C names of the structs that are passed to or from llama.cpp. */
export type StructName = keyof typeof structs

/** The fields of each struct in the order of `llama.h` and `ggml.h` of llama.cpp v0.5.0. */
export const structs = {
  llama_model_params: {
    devices: 'pointer',
    tensor_buft_overrides: 'pointer',
    n_gpu_layers: 'int32',
    split_mode: 'int32',
    load_mode: 'int32',
    lazy_mode: 'int32',
    main_gpu: 'int32',
    tensor_split: 'pointer',
    progress_callback: 'pointer',
    progress_callback_user_data: 'pointer',
    kv_overrides: 'pointer',
    vocab_only: 'bool',
    check_tensors: 'bool',
    use_extra_bufts: 'bool',
    no_host: 'bool',
    no_alloc: 'bool',
    load_mtp: 'bool',
  },
  llama_context_params: {
    n_ctx: 'uint32',
    n_batch: 'uint32',
    n_ubatch: 'uint32',
    n_seq_max: 'uint32',
    n_rs_seq: 'uint32',
    n_outputs_max: 'uint32',
    n_outputs_max_per_seq: 'uint32',
    n_threads: 'int32',
    n_threads_batch: 'int32',
    ctx_type: 'int32',
    rope_scaling_type: 'int32',
    pooling_type: 'int32',
    attention_type: 'int32',
    flash_attn_type: 'int32',
    rope_freq_base: 'float',
    rope_freq_scale: 'float',
    yarn_ext_factor: 'float',
    yarn_attn_factor: 'float',
    yarn_beta_fast: 'float',
    yarn_beta_slow: 'float',
    yarn_orig_ctx: 'uint32',
    defrag_thold: 'float',
    cb_eval: 'pointer',
    cb_eval_user_data: 'pointer',
    type_k: 'int32',
    type_v: 'int32',
    abort_callback: 'pointer',
    abort_callback_data: 'pointer',
    embeddings: 'bool',
    offload_kqv: 'bool',
    no_perf: 'bool',
    op_offload: 'bool',
    swa_full: 'bool',
    kv_unified: 'bool',
    samplers: 'pointer',
    n_samplers: 'size_t',
    ctx_other: 'pointer',
  },
  llama_batch: {
    n_tokens: 'int32',
    token: 'pointer',
    embd: 'pointer',
    pos: 'pointer',
    n_seq_id: 'pointer',
    seq_id: 'pointer',
    logits: 'pointer',
  },
  mtmd_context_params: {
    use_gpu: 'bool',
    device: 'pointer',
    print_timings: 'bool',
    n_threads: 'int32',
    image_marker: 'string',
    media_marker: 'string',
    flash_attn_type: 'int32',
    warmup: 'bool',
    image_min_tokens: 'int32',
    image_max_tokens: 'int32',
    cb_eval: 'pointer',
    cb_eval_user_data: 'pointer',
    batch_max_tokens: 'int32',
    progress_callback: 'pointer',
    progress_callback_user_data: 'pointer',
  },
  mtmd_decoder_pos: { t: 'uint32', x: 'uint32', y: 'uint32', z: 'uint32' },
  mtmd_helper_init_opt: {
    fps_target: 'float',
    ffmpeg_bin_dir: 'string',
    timestamp_interval_ms: 'int64',
  },
  mtmd_helper_bitmap_wrapper: { bitmap: 'pointer', video_ctx: 'pointer' },
  ggml_threadpool_params: {
    cpumask: 'bool[512]',
    n_threads: 'int32',
    prio: 'int32',
    poll: 'uint32',
    strict_cpu: 'bool',
    paused: 'bool',
  },
} as const satisfies Record<string, Readonly<Record<string, string>>>

/** An address in native memory; null is C's. */
export type Pointer = bigint | null

interface Values {
  void: void
  bool: boolean
  int32: number
  uint32: number
  int64: number | bigint
  uint64: number | bigint
  size_t: number
  float: number
  pointer: Pointer
  string: string | null
  'bool[512]': readonly boolean[]
}

/** The JavaScript type of a C type. */
export type Value<T extends CType> = T extends StructName
  ? { -readonly [F in keyof (typeof structs)[T]]: FieldValue<(typeof structs)[T][F]> }
  : T extends keyof Values
    ? Values[T]
    : never

type FieldValue<F> = F extends keyof Values ? Values[F] : never
