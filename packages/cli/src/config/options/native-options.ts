import { resolveProjector, adapters, resolveAdapters } from '../paths.js'
import { option } from './option.js'
import { decimal, integer, oneOf, orAuto, orNone, someTexts, text, toggle } from './value-format.js'

/** How llama.cpp is reached and what only its C API knows, under `engine`. */
export const nativeOptions = {
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
  media_library: option(orNone(text('a file')), null, { llamaCpp: 'mediaLibrary' }).describe(
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
    'KV cells for all slots together, in tokens; each request takes as many as it needs, up to the ' +
      'context size. `auto` gives every slot a whole context if memory allows, and otherwise shares ' +
      'what fits.',
  ),
  poll: option(integer(0, 100, 'LEVEL'), 50, { llamaCpp: 'poll' }).describe(
    'Polling of compute threads between passes, from 0 (sleep at once) to 100.',
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
    'Number of layers, from the first, with their experts on the CPU.',
  ),
}
