import { type BackendLimits, CellPool, CllmError, type SlotStates } from '@cllm/core'
import { ConstraintGrammars } from '../grammar/constraint-grammars.js'
import { LlamaCppBackend, type LlamaCppBackendParts } from '../llamacpp-backend.js'
import { type LlamaCppDependencies, poolingTypes } from '../llamacpp-options.js'
import { LlamaCppAdapters } from './adapters.js'
import { Embedder, embeddingTokens, openEmbeddings } from './embedder.js'
import { cellsOf } from './memory-plan.js'
import { modelInfo, type OpenModel } from './model-info.js'
import { cutsAnywhere, type ModelShape } from './model-shape.js'
import { type ContextSettings, type OpenContext, openContext } from './open-context.js'
import { stateKey } from './sample-file.js'
import { FileEncoder } from '../media/file-encoder.js'
import { type LlamaRuntime, llamaVersion, type LoadedModel } from '../native/native.js'
import { endAll } from '../native/native-context.js'
import { loadedGpuLibrary } from '../native/binaries.js'
import { LlamaCppStates } from '../slots/llamacpp-states.js'
import { SlotCells } from '../slots/slot-cells.js'
import { ChatTemplate } from '../text/chat-template.js'
import { chooseTemplate, compileTemplate } from '../text/compile-template.js'
import { PlainTextGuard } from '../text/plain-text-guard.js'
import { LlamaCppTokenizer, TextParts } from '../text/tokenizer.js'
import { Vocabulary } from '../text/vocabulary.js'

/** The services that a backend needs besides its model. */
type BackendDependencies = Pick<
  LlamaCppDependencies,
  'clock' | 'logger' | 'availableMemory' | 'mediaLibrary'
> &
  Pick<LlamaCppBackendParts, 'close'>

/**
 * Makes the context of a model, and the backend that computes in it.
 * @throws CllmError as `openContext` does, and `model_invalid` if the model has no vocabulary
 */
export async function openBackend(
  model: OpenModel,
  settings: ContextSettings,
  dependencies: BackendDependencies,
): Promise<LlamaCppBackend> {
  const opened = await openContext(model.loaded, settings, cellsOf(settings), dependencies.clock)
  let encoder: FileEncoder | undefined
  try {
    encoder = await openEncoder(model, opened, settings, dependencies).catch((error: unknown) => {
      if (!settings.mmprojOptional) throw error
      const { message } = CllmError.from(error)
      dependencies.logger.warn({}, `images and sounds are refused: ${message}`)
      return undefined
    })
    return assemble(model, opened, settings, { ...dependencies, encoder })
  } catch (error) {
    await endAll(encoder, opened.context).catch(() => {}) // what failed first is told
    throw error
  }
}

function assemble(
  model: OpenModel,
  opened: OpenContext,
  settings: ContextSettings,
  dependencies: BackendDependencies & Pick<LlamaCppBackendParts, 'encoder'>,
): LlamaCppBackend {
  const { llama, loaded, shape } = model
  const { clock, logger, close, encoder } = dependencies
  const { modelPath, slots, contextSize: slotSize, kvTokens } = settings
  const { native, vocabularySize, chatTemplate: own } = loaded
  if (vocabularySize === 0) {
    throw new CllmError('model_invalid', `${modelPath} holds no vocabulary`)
  }
  const vocabulary = new Vocabulary(native, vocabularySize)
  const parts = new TextParts(native, vocabulary)
  const guard = new PlainTextGuard(parts, vocabulary)
  const compile = (source: string) => compileTemplate(source, (text) => llama.compileJinja(text))
  const [source, jinja] = chooseTemplate(settings.chatTemplate, own, compile, logger)
  const template = new ChatTemplate(source, jinja, guard, vocabulary, clock)
  const tokenizer = new LlamaCppTokenizer(parts, vocabulary, template)
  const samplers = opened.samplers(vocabulary, tokenizer, logger)
  const { stateful, context } = opened
  const kvUnified = settings.kvUnified === 'on'
  const { slidingWindow, isRecurrent, architecture } = shape
  const generates = !shape.looksAhead && stateful?.hasMemory() !== false
  const isPlain = cutsAnywhere(shape)
  // A cell that several slots share has the same position in all of them, so it cannot be moved for one.
  const canShift = !kvUnified && isPlain && stateful?.canShift() === true
  const cells = new SlotCells(context, slots, {
    slotSize,
    slidingWindow,
    isRecurrent,
    copiesLate: !kvUnified,
    shifting: canShift ? stateful : undefined,
    canPad: settings.padBatches,
    ...(kvTokens !== undefined && { pool: new CellPool(cellsOf(settings), slots) }),
  })
  const { loadAdapter } = loaded
  const base = { modelPath, architecture }
  const adapters = loadAdapter && stateful && new LlamaCppAdapters({ loadAdapter }, stateful, base)
  return new LlamaCppBackend({
    ...opened,
    model: modelInfo(model, settings, vocabulary, template, encoder?.types),
    limits: limitsOf(llama, loaded, settings),
    capabilities: {
      generates,
      logprobs: true,
      drawLogprobs: samplers.seesLogits,
      promptLogprobs: true,
      samplers: samplers.seesLogits,
      drafts: generates && isPlain,
      gpu: llama.gpu,
    },
    canShift,
    tokenizer,
    vocabulary,
    cells,
    adapters,
    encoder,
    states: openStates(opened, cells, shape, settings, loaded),
    samplers,
    kvUnified,
    tile: tileOf(llama, settings),
    embedder: new Embedder(
      () => openEmbeddings(llama, loaded, shape, settings, dependencies),
      vocabulary,
      {
        inputs: loaded.embeddingInputs,
        eachToken: settings.pooling === 'none',
        mixed: encoder !== undefined && takesLast(shape, settings) ? shape : undefined,
      },
    ),
    grammars: new ConstraintGrammars(vocabulary, (text, special) => parts.behind(text, special)),
    clock,
    close,
  })
}

/**
 * Starts the encoder of a model with a projector.
 * @throws CllmError `invalid_configuration` if the library for it is missing
 */
async function openEncoder(
  { loaded, llama }: OpenModel,
  { stateful: context }: OpenContext,
  settings: ContextSettings,
  { logger, clock, mediaLibrary: built }: BackendDependencies,
): Promise<FileEncoder | undefined> {
  const { mmprojPath, mmprojOffload, mediaLibrary: library = built, modelPath } = settings
  if (mmprojPath === undefined) return undefined
  if (library === undefined || context === undefined) {
    const message =
      'mmproj: images and sounds need the library libmtmd of llama.cpp, which node-llama-cpp does not carry: ' +
      '`cllm native build` builds it here'
    throw new CllmError('invalid_configuration', message, { details: { field: 'mmproj' } })
  }
  const { batchSize, ubatchSize = batchSize, mediaCacheBytes } = settings
  const options = {
    library,
    modelPath,
    mmprojPath,
    threads: Math.max(1, Math.floor(settings.threads.most / 2)),
    gpuLibrary: mmprojOffload ? loadedGpuLibrary(llama.gpu) : undefined,
    width: context.vectorSize,
    vocabularySize: loaded.vocabularySize,
    atOnce: Math.min(batchSize, ubatchSize),
    cacheBytes: mediaCacheBytes,
  }
  const encoder = new FileEncoder(options, logger, clock)
  await encoder.open()
  return encoder
}

/** Whether an input's embedding is that of its last token, as it is without pooling. */
const takesLast = ({ pooling: own }: ModelShape, { pooling }: ContextSettings): boolean =>
  pooling === undefined ? own === 0 || own === poolingTypes.last : pooling === 'last'

/** Queries in one tile of flash attention on the CPU (`GGML_FA_TILE_Q`). */
const chunkMultiple = 64

/** Queries per tile of attention; undefined: there are no tiles, which only the CPU has. */
function tileOf(
  { gpu }: LlamaRuntime,
  { flashAttention, kvCacheType, kvUnified }: ContextSettings,
): number | undefined {
  const isTiled = flashAttention !== false && ['f16', 'f32'].includes(kvCacheType)
  return gpu === false && isTiled && kvUnified !== 'on' ? chunkMultiple : undefined
}

/** The limits of a loaded model. */
function limitsOf(
  { gpu }: LlamaRuntime,
  loaded: LoadedModel,
  settings: ContextSettings,
): BackendLimits {
  const { slots, contextSize, kvTokens, kvUnified, batchSize, flashAttention } = settings
  // A GPU with one pool of cells computes prompts and decodes in one pass, in chunks of any size.
  const isTiled = flashAttention !== false && (gpu === false || kvUnified !== 'on')
  return {
    slots,
    contextSize,
    ...(kvTokens !== undefined && { kvTokens: cellsOf(settings) }),
    batchSize,
    embeddingTokens: embeddingTokens(settings),
    embeddingInputs: loaded.embeddingInputs,
    outputs: settings.outputs,
    ...(isTiled && { chunkMultiple }),
    // A tile of attention rounds differently; without flash attention already two tokens do (`llamafile_sgemm`): there
    // shorter chunks would keep no answer the same, and single tokens would each need a pass over the weights.
    ...(gpu === false && flashAttention !== false && { replayTokens: chunkMultiple - 1 }),
  }
}

/** Makes what saves and restores the slots of a model; undefined with the addon. */
function openStates(
  { stateful: context }: OpenContext,
  cells: SlotCells,
  shape: ModelShape,
  settings: ContextSettings,
  { gpuLayers }: LoadedModel,
): SlotStates | undefined {
  if (context === undefined) return undefined
  const { modelPath, mmprojPath, kvCacheType, flashAttention, rope = {} } = settings
  // llama.cpp stores in a state how many slots have their own cells, and refuses a state with another number.
  const streams = settings.kvUnified === 'on' ? 1 : settings.slots
  const more = { llamaVersion, kvCacheType, flashAttention, rope, streams, gpuLayers }
  return new LlamaCppStates({
    context,
    cells,
    cutsAnywhere: cutsAnywhere(shape),
    checkpointNeedsPrefix: shape.cacheElementsPerToken > 0,
    placesRuns: mmprojPath !== undefined,
    key: () => stateKey(mmprojPath === undefined ? [modelPath] : [modelPath, mmprojPath], more),
  })
}
