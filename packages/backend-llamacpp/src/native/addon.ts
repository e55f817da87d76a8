import { asNativeContext } from './addon-context.js'
import { type Bindings, changed, checkModel } from './open/addon-bindings.js'
import type {
  AddonContext,
  AddonLoadedModel,
  LoadModelOptions,
  NativeContextOptions,
  NativeGrammar,
} from './native.js'
import { ModelContexts } from './model-contexts.js'
import type { NativeModel } from './native-model.js'
import type { LlamaModel } from './node-llama-cpp.js'
import { bindingsOf, type OpenedLlama } from './open/opened-llama.js'

/** Loads a model into node-llama-cpp's addon: the way without the C API. */
export async function loadAddonModel(
  runtime: OpenedLlama,
  options: LoadModelOptions,
): Promise<AddonLoadedModel> {
  const llama = await runtime.llama()
  const bindings = bindingsOf(llama)
  const { modelPath, gpuLayers, contextSize, mmap, mlock, ignoreMemory = false } = options
  const model: LlamaModel = await llama.loadModel({
    modelPath,
    gpuLayers: gpuLayers === 'auto' ? { fitContext: { contextSize } } : gpuLayers,
    useMmap: mmap,
    useMlock: mlock,
    ignoreMemorySafetyChecks: ignoreMemory,
  })
  const native = checkModel((model as unknown as { _model?: unknown })._model)
  const { tokenizer } = model.fileInfo.metadata
  const contexts = new ModelContexts<AddonContext>()
  return {
    path: 'addon',
    native,
    vocabularySize: tokenizer?.ggml?.tokens?.length ?? 0,
    chatTemplate: tokenizer?.chat_template,
    gpuLayers: model.gpuLayers,
    createSampler: () => new bindings.AddonSampler(native),
    parseGrammar: (gbnf, root) => parseGrammar(bindings, native, gbnf, root),
    createContext: async (options) =>
      await contexts.add(() => createContext(bindings, native, options)),
    async dispose() {
      await contexts.dispose()
      await model.dispose()
    },
  }
}

async function createContext(
  bindings: Bindings,
  model: NativeModel,
  { kvCacheType, ...options }: NativeContextOptions,
): Promise<AddonContext | undefined> {
  const type = bindings.getGgmlType(kvCacheType.toUpperCase())
  if (type === undefined) throw changed(`getGgmlType('${kvCacheType.toUpperCase()}')`)
  const context = new bindings.AddonContext(model, {
    ...options,
    kvCacheKeyType: type,
    kvCacheValueType: type,
  })
  if (await context.init()) return asNativeContext(context)
  await context.dispose()
  return undefined
}

function parseGrammar(
  bindings: Bindings,
  model: NativeModel,
  gbnf: string,
  rootRuleName: string,
): NativeGrammar {
  const { AddonGrammar, AddonGrammarEvaluationState, AddonSampler } = bindings
  const grammar = new AddonGrammar(gbnf, { addonExports: bindings, rootRuleName })
  const first = new AddonGrammarEvaluationState(model, grammar)
  return {
    begin: () => new AddonGrammarEvaluationState(first),
    accept: (state, token) => AddonSampler.acceptGrammarEvaluationStateToken(state, token),
  }
}
