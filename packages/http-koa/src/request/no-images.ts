import type { CllmError } from '@cllm/core'
import { unsupported } from './unsupported.js'

/** The refusal of an image, a sound or a file: it says what is missing, and where to look. */
export const noImages = (field: string, type = 'image'): CllmError =>
  unsupported(
    field,
    `${type.slice(0, 40)} input is not supported: this server computes text only. llama.cpp's ` +
      'library for images (libmtmd) is not part of it; send a description, or see docs/models.md',
  )
