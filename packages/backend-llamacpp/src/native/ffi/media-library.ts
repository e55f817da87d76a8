import { llamaVersion } from '../versions.js'
import {
  addressOf,
  bindMediaFunctions,
  type MediaFunctions,
  runAsync,
  viewMemory,
} from './bind-functions.js'
import type { Pointer } from './structs.js'

/** How an encoder is loaded. */
export interface MediaLibraryOptions {
  /** The library: llama.cpp's `libmtmd`, or one of all parts. */
  readonly library: string
  /** The text model, of which no weights are read. */
  readonly modelPath: string
  /** The projector. */
  readonly mmprojPath: string
  readonly threads: number
}

/** A piece of what a model reads in an image's place: tokens of its vocabulary, or vectors. */
export type MediaPiece =
  | { readonly tokens: readonly number[] }
  | { readonly count: number; readonly vectors: Float32Array }

/** `MTMD_INPUT_CHUNK_TYPE_TEXT` */
const textChunk = 0

/** A projector through libmtmd's C API. Not for two calls at once: llama.cpp encodes one image at a time. */
export class MediaLibrary {
  readonly #functions: MediaFunctions
  readonly #context: Pointer

  private constructor(functions: MediaFunctions, context: Pointer) {
    this.#functions = functions
    this.#context = context
  }

  /** @throws Error that says what cannot be loaded or is not served */
  static async open(options: MediaLibraryOptions): Promise<MediaLibrary> {
    const { library, modelPath, mmprojPath, threads } = options
    const functions = bindMediaFunctions(library)
    const version = functions.llama_version()
    if (version !== llamaVersion) {
      throw new Error(`expected llama.cpp ${llamaVersion}, got ${version} in ${library}`)
    }
    const params = functions.mtmd_context_params_default()
    const isLaidOut = params.batch_max_tokens === 1024 && params.image_max_tokens === -1
    if (!isLaidOut) throw new Error(`${library} lays mtmd_context_params out differently`)
    functions.llama_backend_init()
    const model = await runAsync(functions.llama_model_load_from_file, modelPath, {
      ...functions.llama_model_default_params(),
      // its shape and vocabulary, against which libmtmd checks the projector
      no_alloc: true,
      n_gpu_layers: 0,
      load_mode: 0,
    })
    if (model === null) throw new Error(`${modelPath} cannot be read`)
    const context = await runAsync(functions.mtmd_init_from_file, mmprojPath, model, {
      ...params,
      n_threads: threads,
      print_timings: false,
    })
    if (context === null) {
      throw new Error(
        `${mmprojPath} cannot be loaded: it is no projector, or one for another model`,
      )
    }
    if (!functions.mtmd_support_vision(context)) {
      throw new Error(`${mmprojPath} is not for images, and nothing else is encoded`)
    }
    if (functions.mtmd_decode_use_mrope(context)) {
      throw new Error('models whose images have positions of their own (M-RoPE) are not served yet')
    }
    if (functions.mtmd_decode_use_non_causal(context, null)) {
      throw new Error('models that read an image as a whole (not causal) are not served yet')
    }
    return new MediaLibrary(functions, context)
  }

  /**
   * Encodes a file.
   * @param width - the length of a vector
   * @throws Error when libmtmd cannot read or encode it
   */
  async encode(file: Uint8Array<ArrayBuffer>, width: number): Promise<MediaPiece[]> {
    const functions = this.#functions
    const options = functions.mtmd_helper_init_opt_default()
    const read = functions.mtmd_helper_bitmap_init_from_buf
    const { bitmap } = await runAsync(read, this.#context, file, file.length, false, options)
    if (bitmap === null) throw new UnreadableFile('libmtmd cannot decode this file')
    const chunks = functions.mtmd_input_chunks_init()
    try {
      // one `mtmd_input_part` without text, and the list of them
      const part = new BigUint64Array(new ArrayBuffer(16))
      part[1] = bitmap
      const list = new BigUint64Array(new ArrayBuffer(8)).fill(addressOf(part) ?? 0n)
      const tokenize = functions.mtmd_tokenize_from_parts
      const result = await runAsync(tokenize, this.#context, chunks, list, 1, false)
      if (result !== 0) throw new UnreadableFile(`libmtmd cannot prepare this image (${result})`)
      const pieces: MediaPiece[] = []
      for (let index = 0; index < functions.mtmd_input_chunks_size(chunks); index++) {
        pieces.push(await this.#piece(functions.mtmd_input_chunks_get(chunks, index), width))
      }
      return pieces
    } finally {
      functions.mtmd_input_chunks_free(chunks)
      functions.mtmd_bitmap_free(bitmap)
    }
  }

  async #piece(chunk: Pointer, width: number): Promise<MediaPiece> {
    const functions = this.#functions
    if (functions.mtmd_input_chunk_get_type(chunk) === textChunk) {
      const size = new BigUint64Array(new ArrayBuffer(8))
      const tokens = functions.mtmd_input_chunk_get_tokens_text(chunk, size)
      const count = Number(size[0])
      return { tokens: [...new Int32Array(viewMemory(tokens, 4 * count))] }
    }
    const count = functions.mtmd_input_chunk_get_n_tokens(chunk)
    const result = await runAsync(functions.mtmd_encode_chunk, this.#context, chunk)
    if (result !== 0) throw new Error(`libmtmd could not encode the image (${result})`)
    const output = functions.mtmd_get_output_embd(this.#context)
    return { count, vectors: new Float32Array(viewMemory(output, 4 * count * width)).slice() }
  }
}

/** The file is to blame, not the encoder. */
export class UnreadableFile extends Error {}
