import './signal-listeners.js'

/** node-llama-cpp as this project loads it: without listeners for signals. */
export {
  getLlama,
  type GgufFileInfo,
  GgufFileType,
  GgufInsights,
  InsufficientMemoryError,
  type Llama,
  LlamaLogLevel,
  type LlamaModel,
  readGgufFileInfo,
  resolveModelFile,
} from 'node-llama-cpp'
