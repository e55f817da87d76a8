/** The used part of node-llama-cpp, loaded on demand; it is bundled, so that users need not install the rest. */
export {
  GgufInsights,
  Llama,
  LlamaLogLevel,
  type LlamaModel,
  readGgufFileInfo,
  resolveModelFile,
} from 'node-llama-cpp'
