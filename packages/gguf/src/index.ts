export * from './format/gguf-types.js'
export { tensorByteLength, writeGguf } from './format/gguf-writer.js'
export * from './format/lora-adapter.js'
export { quantizeQ8_0 } from './format/quantize-q8-0.js'
export * from './convert-llama2c.js'
export {
  bytePairMetadata,
  type BytePairVocabulary,
  type Merge,
} from './synthetic/byte-pair-vocabulary.js'
export * from './synthetic/synthetic-shapes.js'
export { syntheticVocabulary } from './synthetic/synthetic-vocabulary.js'
export * from './synthetic/write-synthetic-model.js'
export * from './synthetic/write-synthetic-projector.js'
