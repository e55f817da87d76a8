import { adapters, resolveAdapters } from '../adapters.js'
import { option } from './option.js'
import { decimal, integer, oneOf, orAuto, orNone, someTexts, toggle } from './value-format.js'

/** How llama.cpp is reached and what only its C API knows, under `engine`. */
export const nativeOptions = {
  native: option({
    doc:
      'How llama.cpp is reached: through its C API (`ffi`), in the library that `cllm native build` ' +
      'made if there is one, or through the addon of node-llama-cpp (`addon`), which is slower.',
    default: 'ffi',
    format: oneOf(['ffi', 'addon']),
    arg: 'native',
    placeholder: 'ffi|addon',
  }),
  lora: option<readonly string[]>({
    doc:
      'LoRA adapters (GGUF) to load beside the model, each with the name that clients use, as ' +
      '`MODEL:NAME`, and its scale, by default 1. The flag can be repeated. With several models, ' +
      'set it at the model that the adapters are for.',
    default: [],
    format: adapters(),
    arg: 'lora',
    placeholder: 'NAME=PATH[:SCALE]',
    resolve: resolveAdapters,
  }),
  reasoning: option({
    doc:
      'Whether the model thinks where a request does not say; `auto` is what its template does by ' +
      'itself.',
    default: 'auto',
    format: oneOf(['auto', 'on', 'off']),
    arg: 'reasoning',
    placeholder: 'auto|on|off',
  }),
  context_shift: option({
    doc:
      'Requests that do not say go on when their slot is full, without the older half of its tokens ' +
      '(the field `context_shift`); otherwise they end with `length`.',
    default: false,
    format: toggle(),
    arg: 'context-shift',
  }),
  ubatch_size: option({
    doc: 'Tokens computed at once, at most the batch size, which is the default.',
    default: null,
    format: orNone(integer({ minimum: 1 })),
    arg: 'ubatch-size',
    placeholder: 'TOKENS',
  }),
  pooling: option({
    doc:
      "How the vectors of a text's tokens become its embedding; by default as the model says, else " +
      '`last`. With `none` the llama-server routes give the vector of each token.',
    default: null,
    format: orNone(oneOf(['none', 'mean', 'cls', 'last'])),
    arg: 'pooling',
    placeholder: 'none|mean|cls|last',
  }),
  kv_unified: option({
    doc:
      'Whether all slots share their KV cells, so that a step is one pass; by default off, unless the ' +
      'memory does not suffice for cells of their own.',
    default: null,
    format: orNone(oneOf(['on', 'off'])),
    arg: 'kv-unified',
    placeholder: 'on|off',
  }),
  kv_tokens: option<number | 'auto'>({
    doc:
      'Tokens that all slots hold together, in one pool: each request takes what it needs, up to the ' +
      'context size. `auto`: each slot has cells for a whole context, which is never slower, where the ' +
      'memory suffices for that; otherwise a pool of what fits.',
    default: 'auto',
    format: orAuto(integer({ minimum: 1 })),
    arg: 'kv-tokens',
    placeholder: 'TOKENS',
    normalize: (value) => value ?? 'auto',
  }),
  poll: option({
    doc: 'How long compute threads poll for the next pass before they sleep, 0 to 100.',
    default: 50,
    format: integer({ minimum: 0, maximum: 100 }),
    arg: 'poll',
    placeholder: 'LEVEL',
  }),
  rope_scaling: option({
    doc: 'How positions are stretched beyond the training context; by default as the model says.',
    default: null,
    format: orNone(oneOf(['none', 'linear', 'yarn'])),
    arg: 'rope-scaling',
    placeholder: 'none|linear|yarn',
  }),
  rope_freq_base: option({
    doc: "RoPE's base frequency; by default the model's.",
    default: null,
    format: orNone(decimal({ minimum: 1 })),
    arg: 'rope-freq-base',
    placeholder: 'NUMBER',
  }),
  rope_freq_scale: option({
    doc: "Factor on RoPE's frequencies; 0.5 doubles the context.",
    default: null,
    format: orNone(decimal({ minimum: 0.001 })),
    arg: 'rope-freq-scale',
    placeholder: 'NUMBER',
  }),
  yarn_orig_ctx: option({
    doc: 'The context that the model was trained with, for YaRN.',
    default: null,
    format: orNone(integer({ minimum: 1 })),
    arg: 'yarn-orig-ctx',
    placeholder: 'TOKENS',
  }),
  devices: option({
    doc: "Devices to load the model on, by llama.cpp's names, such as `CUDA0,CUDA1`; default: all GPUs.",
    default: [],
    format: someTexts('devices'),
    arg: 'devices',
    placeholder: 'NAME,…',
  }),
  split_mode: option({
    doc: 'How a model is split over several GPUs.',
    default: null,
    format: orNone(oneOf(['none', 'layer', 'row'])),
    arg: 'split-mode',
    placeholder: 'none|layer|row',
  }),
  main_gpu: option({
    doc: 'The GPU for the whole model with `--split-mode none`, counted from 0.',
    default: null,
    format: orNone(integer({ minimum: 0 })),
    arg: 'main-gpu',
    placeholder: 'NUMBER',
  }),
  tensor_split: option({
    doc: "Each GPU's share of the model, such as `3,1`.",
    default: [],
    format: someTexts('numbers'),
    arg: 'tensor-split',
    placeholder: 'SHARE,…',
    normalize: (value) => (Array.isArray(value) ? value.map(String) : value),
  }),
  override_tensor: option({
    doc: 'Tensors whose name matches a pattern go to a device, such as `ffn_.*_exps=CPU`.',
    default: [],
    format: someTexts('PATTERN=DEVICE'),
    arg: 'override-tensor',
    placeholder: 'PATTERN=DEVICE,…',
  }),
  n_cpu_moe: option({
    doc: 'Layers, counted from the first, whose experts stay on the CPU.',
    default: 0,
    format: integer({ minimum: 0 }),
    arg: 'n-cpu-moe',
    placeholder: 'COUNT',
  }),
}
