import { adapters, resolveAdapters } from '../adapters.js'
import { option } from './option.js'
import { decimal, integer, oneOf, orAuto, orNone, someTexts, toggle } from './value-format.js'

/** How llama.cpp is reached and what only its C API knows, under `engine`. */
export const nativeOptions = {
  native: option({
    doc:
      'How llama.cpp is called: `ffi` uses its C API, in the library from `cllm native ' +
      "build` if there is one; `addon` uses node-llama-cpp's addon, which is slower.",
    default: 'ffi',
    format: oneOf(['ffi', 'addon']),
    arg: 'native',
    llamaCppOption: 'native',
    placeholder: 'ffi|addon',
  }),
  lora: option<readonly string[]>({
    doc:
      'LoRA adapters (GGUF) to load with the model: the name that clients request as ' +
      '`MODEL:NAME`, the file, and the scale (default 1). The flag can be repeated. With ' +
      "several models, set it at the adapters' model.",
    default: [],
    format: adapters(),
    arg: 'lora',
    placeholder: 'NAME=PATH[:SCALE]',
    resolve: resolveAdapters,
  }),
  reasoning: option({
    doc: 'Thinking for requests that do not set it; `auto` follows the chat template.',
    default: 'auto',
    format: oneOf(['auto', 'on', 'off']),
    arg: 'reasoning',
    placeholder: 'auto|on|off',
  }),
  context_shift: option({
    doc:
      'When a slot fills up, drop its older half and continue, unless the request says ' +
      'otherwise (field `context_shift`). Off: the answer ends with `length`.',
    default: false,
    format: toggle(),
    arg: 'context-shift',
  }),
  ubatch_size: option({
    doc: 'Tokens per forward pass, at most the batch size, which is the default.',
    default: null,
    format: orNone(integer({ minimum: 1 })),
    arg: 'ubatch-size',
    llamaCppOption: 'ubatchSize',
    placeholder: 'TOKENS',
  }),
  pooling: option({
    doc:
      "How token vectors are combined into an embedding; by default the model's own way, " +
      'or `last` if it has none. With `none`, the llama-server routes return one vector ' +
      'per token.',
    default: null,
    format: orNone(oneOf(['none', 'mean', 'cls', 'last'])),
    arg: 'pooling',
    llamaCppOption: 'pooling',
    placeholder: 'none|mean|cls|last',
  }),
  kv_unified: option({
    doc:
      'Share one set of KV cells among all slots, so that a step is one forward pass. Off ' +
      'by default, unless memory is too small for separate cells.',
    default: null,
    format: orNone(oneOf(['on', 'off'])),
    arg: 'kv-unified',
    llamaCppOption: 'kvUnified',
    placeholder: 'on|off',
  }),
  kv_tokens: option<number | 'auto'>({
    doc:
      'KV cells for all slots together, in tokens: each request takes as many as it needs, ' +
      'up to the context size. `auto` gives every slot cells for a whole context if memory ' +
      'allows, which is never slower, and otherwise shares what fits.',
    default: 'auto',
    format: orAuto(integer({ minimum: 1 })),
    arg: 'kv-tokens',
    llamaCppOption: 'kvTokens',
    placeholder: 'TOKENS',
    normalize: (value) => value ?? 'auto',
  }),
  poll: option({
    doc: 'Polling of compute threads between passes, from 0 (sleep at once) to 100.',
    default: 50,
    format: integer({ minimum: 0, maximum: 100 }),
    arg: 'poll',
    llamaCppOption: 'poll',
    placeholder: 'LEVEL',
  }),
  rope_scaling: option({
    doc: "RoPE scaling beyond the training context; by default the model's.",
    default: null,
    format: orNone(oneOf(['none', 'linear', 'yarn'])),
    arg: 'rope-scaling',
    llamaCppOption: 'rope.scaling',
    placeholder: 'none|linear|yarn',
  }),
  rope_freq_base: option({
    doc: "Base frequency of RoPE; by default the model's.",
    default: null,
    format: orNone(decimal({ minimum: 1 })),
    arg: 'rope-freq-base',
    llamaCppOption: 'rope.freqBase',
    placeholder: 'NUMBER',
  }),
  rope_freq_scale: option({
    doc: 'Frequency factor of RoPE; 0.5 doubles the context.',
    default: null,
    format: orNone(decimal({ minimum: 0.001 })),
    arg: 'rope-freq-scale',
    llamaCppOption: 'rope.freqScale',
    placeholder: 'NUMBER',
  }),
  yarn_orig_ctx: option({
    doc: "Training context for YaRN, in tokens; by default the model's.",
    default: null,
    format: orNone(integer({ minimum: 1 })),
    arg: 'yarn-orig-ctx',
    llamaCppOption: 'rope.yarnOriginalContext',
    placeholder: 'TOKENS',
  }),
  devices: option({
    doc: "Devices for the model, by llama.cpp's names, such as `CUDA0,CUDA1`; default: all GPUs.",
    default: [],
    format: someTexts('devices'),
    arg: 'devices',
    llamaCppOption: 'placement.devices',
    placeholder: 'NAME,…',
  }),
  split_mode: option({
    doc: 'Split of the model over several GPUs.',
    default: null,
    format: orNone(oneOf(['none', 'layer', 'row'])),
    arg: 'split-mode',
    llamaCppOption: 'placement.splitMode',
    placeholder: 'none|layer|row',
  }),
  main_gpu: option({
    doc: 'GPU for the whole model with `--split-mode none`, counted from 0.',
    default: null,
    format: orNone(integer({ minimum: 0 })),
    arg: 'main-gpu',
    llamaCppOption: 'placement.mainGpu',
    placeholder: 'NUMBER',
  }),
  tensor_split: option({
    doc: 'Share of the model per GPU, such as `3,1`.',
    default: [],
    format: someTexts('numbers'),
    arg: 'tensor-split',
    placeholder: 'SHARE,…',
    normalize: (value) => (Array.isArray(value) ? value.map(String) : value),
  }),
  override_tensor: option({
    doc: 'Device for tensors by name pattern, such as `ffn_.*_exps=CPU`.',
    default: [],
    format: someTexts('PATTERN=DEVICE'),
    arg: 'override-tensor',
    placeholder: 'PATTERN=DEVICE,…',
  }),
  n_cpu_moe: option({
    doc: 'Number of layers, from the first, with their experts on the CPU.',
    default: 0,
    format: integer({ minimum: 0 }),
    arg: 'n-cpu-moe',
    placeholder: 'COUNT',
  }),
}
