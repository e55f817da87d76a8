import type { CType, Pointer, Value } from './structs.js'

type Signature = readonly [result: CType, ...args: CType[]]

/** The functions of `llama.h` that are used: the type of the result, then those of the arguments. */
export const llamaFunctions = {
  llama_version: ['string'],
  llama_backend_init: ['void'],
  llama_log_get: ['void', 'pointer', 'pointer'],
  llama_log_set: ['void', 'pointer', 'pointer'],
  llama_model_default_params: ['llama_model_params'],
  llama_context_default_params: ['llama_context_params'],

  llama_max_devices: ['size_t'],
  llama_model_load_from_file: ['pointer', 'string', 'llama_model_params'],
  llama_model_free: ['void', 'pointer'],
  llama_model_get_vocab: ['pointer', 'pointer'],
  llama_model_n_ctx_train: ['int32', 'pointer'],
  llama_model_n_layer: ['int32', 'pointer'],
  llama_model_n_embd_inp: ['int32', 'pointer'],
  llama_model_n_embd_out: ['int32', 'pointer'],
  llama_model_n_swa: ['int32', 'pointer'],
  llama_model_is_recurrent: ['bool', 'pointer'],
  llama_model_is_hybrid: ['bool', 'pointer'],
  llama_model_n_params: ['uint64', 'pointer'],
  llama_model_size: ['uint64', 'pointer'],
  llama_model_chat_template: ['string', 'pointer', 'string'],

  llama_vocab_type: ['int32', 'pointer'],
  llama_model_rope_type: ['int32', 'pointer'],
  llama_vocab_n_tokens: ['int32', 'pointer'],
  llama_vocab_get_text: ['string', 'pointer', 'int32'],
  llama_vocab_get_attr: ['int32', 'pointer', 'int32'],
  llama_vocab_is_eog: ['bool', 'pointer', 'int32'],
  llama_vocab_bos: ['int32', 'pointer'],
  llama_vocab_eos: ['int32', 'pointer'],
  llama_vocab_sep: ['int32', 'pointer'],
  llama_vocab_get_add_bos: ['bool', 'pointer'],
  llama_vocab_get_add_eos: ['bool', 'pointer'],
  llama_vocab_get_add_sep: ['bool', 'pointer'],
  llama_vocab_fim_pre: ['int32', 'pointer'],
  llama_vocab_fim_suf: ['int32', 'pointer'],
  llama_vocab_fim_mid: ['int32', 'pointer'],
  llama_tokenize: ['int32', 'pointer', 'pointer', 'int32', 'pointer', 'int32', 'bool', 'bool'],
  llama_detokenize: ['int32', 'pointer', 'pointer', 'int32', 'pointer', 'int32', 'bool', 'bool'],

  llama_init_from_model: ['pointer', 'pointer', 'llama_context_params'],
  llama_free: ['void', 'pointer'],
  llama_n_threads: ['int32', 'pointer'],
  llama_set_n_threads: ['void', 'pointer', 'int32', 'int32'],
  llama_attach_threadpool: ['void', 'pointer', 'pointer', 'pointer'],
  llama_set_causal_attn: ['void', 'pointer', 'bool'],
  llama_pooling_type: ['int32', 'pointer'],

  llama_adapter_lora_init: ['pointer', 'pointer', 'string'],
  llama_adapter_lora_free: ['void', 'pointer'],
  llama_set_adapters_lora: ['int32', 'pointer', 'pointer', 'size_t', 'pointer'],

  llama_decode: ['int32', 'pointer', 'llama_batch'],
  llama_synchronize: ['void', 'pointer'],
  llama_get_logits_ith: ['pointer', 'pointer', 'int32'],
  llama_get_embeddings_ith: ['pointer', 'pointer', 'int32'],
  llama_get_embeddings_seq: ['pointer', 'pointer', 'int32'],

  llama_get_memory: ['pointer', 'pointer'],
  llama_memory_seq_rm: ['bool', 'pointer', 'int32', 'int32', 'int32'],
  llama_memory_seq_cp: ['void', 'pointer', 'int32', 'int32', 'int32', 'int32'],
  llama_memory_seq_add: ['void', 'pointer', 'int32', 'int32', 'int32', 'int32'],
  llama_memory_can_shift: ['bool', 'pointer'],
  llama_memory_seq_pos_min: ['int32', 'pointer', 'int32'],
  llama_memory_seq_pos_max: ['int32', 'pointer', 'int32'],

  llama_state_seq_get_size_ext: ['size_t', 'pointer', 'int32', 'uint32'],
  llama_state_seq_get_data_ext: ['size_t', 'pointer', 'pointer', 'size_t', 'int32', 'uint32'],
  llama_state_seq_set_data_ext: ['size_t', 'pointer', 'pointer', 'size_t', 'int32', 'uint32'],
} as const satisfies Record<string, Signature>

/** Functions of `mtmd.h` and `mtmd-helper.h`, in the library for images and sounds, and one to load a GPU's library. */
export const mediaFunctions = {
  ggml_backend_load: ['pointer', 'string'],

  mtmd_context_params_default: ['mtmd_context_params'],
  mtmd_init_from_file: ['pointer', 'string', 'pointer', 'mtmd_context_params'],
  mtmd_support_vision: ['bool', 'pointer'],
  mtmd_support_audio: ['bool', 'pointer'],
  mtmd_decode_use_mrope: ['bool', 'pointer'],
  mtmd_decode_use_non_causal: ['bool', 'pointer', 'pointer'],

  mtmd_helper_init_opt_default: ['mtmd_helper_init_opt'],
  mtmd_helper_bitmap_init_from_buf: [
    'mtmd_helper_bitmap_wrapper',
    'pointer',
    'pointer',
    'size_t',
    'bool',
    'mtmd_helper_init_opt',
  ],
  mtmd_bitmap_init: ['pointer', 'uint32', 'uint32', 'pointer'],
  mtmd_bitmap_get_nx: ['uint32', 'pointer'],
  mtmd_bitmap_get_ny: ['uint32', 'pointer'],
  mtmd_bitmap_get_data: ['pointer', 'pointer'],
  mtmd_bitmap_is_audio: ['bool', 'pointer'],
  mtmd_bitmap_free: ['void', 'pointer'],

  mtmd_input_chunks_init: ['pointer'],
  mtmd_input_chunks_size: ['size_t', 'pointer'],
  mtmd_input_chunks_get: ['pointer', 'pointer', 'size_t'],
  mtmd_input_chunks_free: ['void', 'pointer'],
  mtmd_input_chunk_get_type: ['int32', 'pointer'],
  mtmd_input_chunk_get_n_pos: ['int32', 'pointer'],
  mtmd_input_chunk_get_tokens_image: ['pointer', 'pointer'],
  mtmd_image_tokens_get_decoder_pos: ['mtmd_decoder_pos', 'pointer', 'int32', 'size_t'],
  mtmd_input_chunk_get_n_tokens: ['size_t', 'pointer'],
  mtmd_input_chunk_get_tokens_text: ['pointer', 'pointer', 'pointer'],
  mtmd_tokenize_from_parts: ['int32', 'pointer', 'pointer', 'pointer', 'size_t', 'bool'],
  mtmd_encode_chunk: ['int32', 'pointer', 'pointer'],
  mtmd_get_output_embd: ['pointer', 'pointer'],
} as const satisfies Record<string, Signature>

/** Functions of `ggml.h` and `ggml-backend.h`, which are in ggml's base library. */
export const ggmlFunctions = {
  ggml_threadpool_params_default: ['ggml_threadpool_params', 'int32'],
  ggml_backend_dev_name: ['string', 'pointer'],
  ggml_backend_dev_buffer_type: ['pointer', 'pointer'],
  ggml_backend_dev_backend_reg: ['pointer', 'pointer'],
  ggml_backend_reg_get_proc_address: ['pointer', 'pointer', 'string'],
} as const satisfies Record<string, Signature>

/** Functions of the library that keeps the registry of devices. */
export const registryFunctions = {
  ggml_backend_dev_by_type: ['pointer', 'int32'],
  ggml_backend_dev_count: ['size_t'],
  ggml_backend_dev_get: ['pointer', 'size_t'],
} as const satisfies Record<string, Signature>

/** Functions that are looked up by name in a device's registry. */
export const deviceFunctions = {
  ggml_threadpool_new: ['pointer', 'pointer'],
  ggml_threadpool_free: ['void', 'pointer'],
} as const satisfies Record<string, Signature>

/** What a pointer argument takes: an address, or an array. */
type Memory = Pointer | NodeJS.TypedArray

type Arguments<T extends readonly CType[]> = {
  [I in keyof T]: T[I] extends 'pointer' ? Memory : Value<T[I]>
}

/** A function of llama.cpp; its `async` version runs on libuv's thread pool. */
export interface NativeFunction<R, A extends readonly unknown[]> {
  (...args: A): R
  async(...args: [...A, (error: Error | null, result: R) => void]): void
}

/** The bound functions of a table such as {@link llamaFunctions}. */
export type Bound<T extends Readonly<Record<string, Signature>>> = {
  readonly [N in keyof T]: T[N] extends readonly [infer R extends CType, ...infer A extends CType[]]
    ? NativeFunction<Value<R>, Arguments<A>>
    : never
}
