import { deepseek } from './deepseek.js'
import { gemma } from './gemma.js'
import { llama } from './llama.js'
import { mistral } from './mistral.js'
import { phi } from './phi.js'
import { qwen } from './qwen.js'

/** The formats of the common model families. */
export const fixtures = [...qwen, ...llama, ...gemma, ...mistral, ...phi, ...deepseek]
