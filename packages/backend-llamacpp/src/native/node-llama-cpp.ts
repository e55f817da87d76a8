import './open/signal-listeners.js'

/** node-llama-cpp as this project loads it: without listeners for signals. */
export {
  getLlama,
  GgufInsights,
  Llama,
  LlamaLogLevel,
  type LlamaModel,
  readGgufFileInfo,
  resolveModelFile,
} from 'node-llama-cpp'
