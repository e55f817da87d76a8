/**
 * Words of programming, mathematics and technical prose that are rare or missing in film
 * subtitles.
 */
export const technicalWords: readonly string[] = `
API APIs app apps async await asynchronous synchronous http https html css javascript typescript
python java rust golang json yaml xml csv sql url urls uri www com org net io github git google
linux unix ubuntu debian docker kubernetes cpu cpus gpu gpus cuda tpu ram rom usb ssd tcp udp ip
ipv dns ssh ssl tls ftp smtp pdf png jpeg gif svg mp ascii utf unicode regex ai ml nlp llm llms
gpt llama nvidia intel amd arm ios android windows mac macos aws azure cloud saas sdk ide cli gui
ui ux algorithm algorithms array arrays boolean integer integers float floats string strings char
byte bytes bit bits buffer buffers cache cached caching callback callbacks class classes closure
compile compiled compiler compilers compiling concurrency concurrent config configs configuration
configurations configure configured constant constants constructor container containers context
contexts control cursor data database databases dataset datasets debug debugging debugger
declaration declared default defaults deprecated dependency dependencies deploy deployed
deployment directory directories dict dictionary domain domains dynamic dynamically element
elements embedding embeddings emit enum enums endpoint endpoints engine entry enumerate
environment env error errors event events exception exceptions execute executed executable
execution expression expressions extension extensions field fields file filename filenames
filesystem filter filters flag flags folder folders format formats formatted formatting framework
frameworks function functional functions generate generated generates generating generation
generator generic global grammar graph graphs handler handlers hash header headers heap hardware
host hostname identifier identifiers implement implementation implementations implemented
implementing implements import imported imports include included includes index indexes indices
inference inherit inheritance init initial initialize initialized initialization input inputs
insert install installation installed installing instance instances instruction instructions
interface interfaces internal interpreter iterate iteration iterations iterator iterable kernel
kernels key keyboard keys keyword keywords lambda latency layer layers layout lib library
libraries license licenses line linear linked list lists load loaded loader loading loads local
localhost log logging login logic logical logs loop loops machine macro macros main manager map
mapping matrix matrices max maximum memory merge merged metadata method methods metric metrics
middleware migrate min minimum mode model models modify modified modifies modification
modifications modular module modules monitor monitoring multi multiple multiply mutable mutex
namespace namespaces nested network networks networking neural node nodes null numeric numerical
object objects offset online operand operation operations operator operators optimal optimization
optimize optimized option optional options output outputs overflow overhead override overview
package packages padding parallel parallelism param parameter parameters params parse parsed
parser parsing patch path paths pattern patterns performance permission permissions pipeline
pipelines pixel pixels platform platforms plugin plugins pointer pointers policy pool port ports
prefix preprocessing primitive print private procedure process processed processes processing
processor processors profile program programmer programmers programming programs project projects
prompt prompts properties property protocol protocols prototype provider public quantization query
queries queue queues random range recursive recursion reference references refactor register
registry release releases remote render rendering repo repository repositories request requests
require required requirements requires resource resources response responses return returned
returning returns root route router routes routing runtime sample samples sampling scalable scale
scaling schedule scheduler scheduling schema scheme scope script scripts search semantic semantics
sequence sequences sequential serialize server servers service services session sessions set
setting settings setup shell signature size slice slot slots snapshot socket sockets software sort
sorted sorting source sources spec specific specification specifications specified specifies
specify sparse stack startup state statement statements static statistics status stderr stdin
stdout storage store stored stores stream streaming streams struct structure structures subset
suffix support supported supports switch symbol symbols syntax system systems tab table tables tag
tags task tasks template templates temporary tensor tensors terminal test testing tests text
thread threads threading threshold throughput timeout timestamp timestamps token tokenize
tokenizer tokens tool toolchain tools topology training transaction transactions transform
transformation transformer transformers transforms transpose tree trees trigger tuple tuples
tutorial type types unit units unsigned update updated updates upgrade upload usage user username
users utility utils valid validate validated validation value values var variable variables
variance vector vectors verify version versions virtual vocabulary warning warnings web webhook
website websites widget width wrapper write writes workflow workload workspace args argument
arguments attr attribute attributes auth authentication authorization backend frontend backup
bandwidth baseline batch batches batching benchmark benchmarks binary blog browser browsers build
builds built bug bugs button canvas checkpoint checksum chunk chunks client clients clone cluster
clusters code codebase codes coding column columns command commands comment comments commit
commits commons community compatible compatibility component components compression compute
computed computes computing conditional connect connection connections constraint constraints
contributor contributors contribute copyright copy core correct correctly counter create created
creates creating credentials custom customize decode decoded decoder decoding decrement deep def
delete deleted delimiter description design detect detection device devices diff different
directly disable disabled disk display distributed distribution doc docs document documentation
documents download downloads driver drivers duplicate edge edit editor email emails enable enabled
enables encode encoded encoder encoding encrypt encryption equation equations estimate evaluate
evaluation example examples explicit explicitly export exported exports exponential external
fallback feature features fetch final flexible gradient guideline guidelines implicit increment
indentation infrastructure inline interactive issue issues item items iterative job jobs length
level levels link links lookup mathematical mathematics maximize mechanism message messages
minimize mock modal multiplication multimodal normalize normalized notation notebook notification
number numbers optimizer overlap page parent partial password passwords penalty persistent phase
photon polynomial post posts precision predict prediction predictions probability probabilities
problem problems product production quantum quote quotes rate ratio read readme readable recommend
recommended redirect reduce reduces refer regression relational relative reliable replace replaced
result results retrieve retry reusable row rows run running runs safe safety scenario score scores
security select selected selection sensor separated separator shape shared signal simulation
simulate simplify skip social solution solutions solve specifically speculative speed split square
standard standards start stop strategy strategies style submit sum summarize summary
synchronization target technical technique techniques technologies technology theorem theoretical
title total trace traffic trained translate translation typically undefined unique usable vertex
via video videos view views visual visualization void window worker workers world zero
`.split(/\s+/)
