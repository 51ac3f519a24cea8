// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// argument is the hint for --model and its like: commands take it as an argument.
const argument = "MODEL as the first argument"

// foreign are names of ours, the best first, each with an example of its value or none, and the words of timm,
// ultralytics and Hugging Face for them.
var foreign = []struct{ ours, theirs string }{
	{"lr,learning_rate", "lr lr0 base_lr learning_rate"}, {"optimizer.name", "opt optim optimizer"},
	{"backend xla:cuda", "device gpu gpus cuda"}, {"backend go", "cpu no_cuda"},
	{"size,sizes,augment.size", "imgsz img img_size image_size input_size crop_size"},
	{"data", "dataset dataset_name data_dir data_path train_dir"}, {argument, "model model_name_or_path pretrained ckpt"},
	{"to", "format"}, {"out", "output output_dir project save_dir"}, {"workers", "num_workers dataloader_num_workers"},
	{"batch-size,batch_size,batch", "batch bs train_batch_size per_device_train_batch_size"},
	{"epochs", "num_train_epochs num_epochs"}, {"steps", "max_steps num_steps"}, {"top", "topk top_k"},
	{"score-threshold", "conf threshold"}, {"position,positions", "pos_embed pos_embed_type position_embedding_type"},
	{"model.width", "hidden_size embed_dim dim"}, {"model.depth", "num_hidden_layers num_layers layers"},
	{"model.num_heads", "heads num_attention_heads"}, {"model.mlp_dim", "intermediate_size mlp_ratio"},
	{"model.dropout", "drop drop_rate hidden_dropout_prob"}, {"model.drop_path", "drop_path_rate droppath"},
	{"model.attention_dropout", "attn_drop attn_drop_rate attention_probs_dropout_prob"},
	{"model.class_token", "cls_token"}, {"model.dtype", "amp amp_dtype half fp16 bf16 precision"},
	{"label_smoothing", "smoothing label_smoothing_factor"}, {"ema_decay", "model_ema_decay"},
	{"grad_accum_steps", "gradient_accumulation_steps"}, {"optimizer.weight_decay", "wd"},
	{"optimizer.clip_norm", "clip_grad max_grad_norm"}, {"optimizer.beta1", "betas adam_beta1 opt_betas"},
	{"augment.policy", "aa auto_augment"}, {"augment.mixup_alpha", "mixup"}, {"augment.cutmix_alpha", "cutmix"},
	{"augment.random_erasing_prob", "reprob erasing"}, {"augment.hflip", "fliplr"}, {"augment.vflip", "flipud"},
	{"augment.jitter", "color_jitter"}, {"sincos2d", "sinusoidal"}, {"learned", "absolute learnable"},
	{"rope-axial", "rotary"},
}

// Similar returns what can have been meant by an unknown word, the likeliest first: the names whose last part it is
// (dropout is model.dropout), ours for a foreign word, the names that contain it, or those that it may misspell, by
// two letters at most and a third of its own.
func Similar(word string, names []string) []string {
	plain := func(text string) string { return strings.ReplaceAll(strings.ToLower(text), "-", "_") }
	word = plain(word)
	last := func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
	those := func(fits func(name string) bool) (found []string) {
		for _, name := range names {
			if fits(plain(name)) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		return found
	}
	if found := those(func(name string) bool { return last(name) == last(word) }); found != nil {
		return found
	}
	for _, f := range foreign {
		if slices.Contains(strings.Fields(f.theirs), last(word)) {
			for ours := range strings.SplitSeq(f.ours, ",") {
				if name, _, _ := strings.Cut(ours, " "); slices.Contains(names, name) || slices.Contains(names, ours) {
					return []string{ours}
				}
			}
		}
	}
	begin := those(func(name string) bool { return strings.HasPrefix(name, word) })
	within := those(func(name string) bool { return len(word) > 2 && strings.Contains(name, word) })
	found := slices.DeleteFunc(within, func(name string) bool { return slices.Contains(begin, name) })
	if found = append(begin, found...); found == nil {
		found = those(func(name string) bool { return misspells(word, name) || misspells(word, last(name)) })
	}
	return found[:min(6, len(found))]
}

// misspells reports whether cobra would suggest a name for a word.
func misspells(word, name string) bool {
	c := &cobra.Command{SuggestionsMinimumDistance: min(2, (len(word)+1)/3)}
	c.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	return len(c.SuggestionsFor(word)) > 0
}

// Hint is ", did you mean NAME?" for an unknown word, "" where nothing is like it.
func Hint(word string, names []string) string {
	if hint := didYouMean(Similar(word, names)); hint != "" {
		return ", " + hint
	}
	return ""
}

// didYouMean asks for the names that Similar returns, "" for none.
func didYouMean(names []string) string {
	if len(names) == 0 {
		return ""
	}
	others, text := names[:len(names)-1], names[len(names)-1]
	if len(others) > 0 {
		text = strings.Join(others, ", ") + " or " + text
	}
	return "did you mean " + text + "?"
}
